"""Hugging Face's trainer and adapters of peft around a private run, on a tiny model with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import discreet
from discreet.core.errors import InputError

transformers = pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
peft = pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")

pytestmark = pytest.mark.filterwarnings("ignore")

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=3, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


def tiny_model() -> Any:
    """A decoder of one layer and 16 numbers a token, with a head for two classes."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=30,
        max_position_embeddings=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=2,
        pad_token_id=0,
    )
    return transformers.AutoModelForSequenceClassification.from_config(config)


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Sequences of six tokens, a third of them padded."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 30, (count, 6), generator=generator)
    mask = torch.ones_like(tokens)
    mask[::3, 4:] = 0
    labels = (tokens[:, 0] > 15).long()
    return [
        {"input_ids": (tokens[i] * mask[i]).tolist(), "attention_mask": mask[i].tolist(), "labels": int(labels[i])}
        for i in range(count)
    ]


def private_trainer(folder: Path, model: Any, **changes: Any) -> Any:
    from discreet.integrations.huggingface import PrivateTrainer

    arguments = {"output_dir": str(folder / "hf"), "report_to": [], "use_cpu": True, "learning_rate": 1e-2}
    return PrivateTrainer(
        model=model,
        args=transformers.TrainingArguments(**arguments | changes),
        train_dataset=rows(40, 0),
        eval_dataset=rows(10, 1),
        plan=PLAN,
        options={"run_dir": folder / "run", "engine": "bookkeeping"},
    )


def test_adapters_are_trained_through_the_trainer_and_certified(tmp_path: Path) -> None:
    wanted = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="SEQ_CLS")
    model = peft.get_peft_model(tiny_model(), wanted)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer = private_trainer(tmp_path, model)
    trained = trainer.train()
    assert trained.charged_steps == 3
    assert "accuracy" in trained.evaluations[-1].metrics
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert changed == trainable
    assert all("lora" in name or "score" in name for name in changed)
    assert trainer.evaluate()["eval_loss"] > 0  # Hugging Face's own evaluation, of public rows
    discreet.publish(trained, tmp_path / "out")
    assert discreet.verify(tmp_path / "out").accepted


def test_what_goes_around_the_plan_is_refused(tmp_path: Path) -> None:
    from discreet.integrations.huggingface import PrivateTrainer

    with pytest.raises(InputError, match="those of the plan"):
        private_trainer(tmp_path, tiny_model(), gradient_accumulation_steps=2)
    with pytest.raises(InputError, match=r"^gradient_accumulation_steps=2 would be ignored, .*physical_batch=.*$"):
        private_trainer(tmp_path, tiny_model(), gradient_accumulation_steps=2)
    with pytest.raises(InputError, match=r"^max_grad_norm=0\.5 would clip nothing, .* say clip_norm= there$"):
        private_trainer(tmp_path, tiny_model(), max_grad_norm=0.5)
    with pytest.raises(InputError, match=r"^PrivateTrainer takes no units; options=.* is passed on to Training$"):
        PrivateTrainer(plan=PLAN, units=["a"])
    with pytest.raises(InputError, match="is resumed with options"):
        private_trainer(tmp_path, tiny_model()).train(resume_from_checkpoint=True)


def test_the_private_rows_are_not_for_evaluation(tmp_path: Path) -> None:
    trainer = private_trainer(tmp_path, tiny_model())
    for same in (trainer.train_dataset, trainer.train_dataset[3:9]):
        trainer.eval_dataset = same
        with pytest.raises(InputError, match="eval_dataset is the training data itself"):
            trainer.train()
    assert not (tmp_path / "run").exists()


def test_private_rows_are_neither_evaluated_nor_predicted(tmp_path: Path) -> None:
    """Hugging Face shows and logs their loss, which was not paid for."""
    trainer = private_trainer(tmp_path, tiny_model())
    for same in (trainer.train_dataset, trainer.train_dataset[3:9]):
        with pytest.raises(InputError, match="eval_dataset is the training data itself"):
            trainer.evaluate(same)
        with pytest.raises(InputError, match="test_dataset is the training data itself"):
            trainer.predict(same)
    trainer.eval_dataset = {"public": trainer.eval_dataset, "private": trainer.train_dataset}
    with pytest.raises(InputError, match="eval_dataset is the training data itself"):
        trainer.evaluate()
