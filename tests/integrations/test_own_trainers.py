"""Subclasses, callbacks and arguments of a user's own: what a private run would ignore is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from language_families import field_rows, inner_model, transformers, with_lora
from torchrun import torchrun

import discreet
from discreet.core.errors import InputError
from discreet.integrations.huggingface import PrivateTrainer, publish_adapters
from discreet.integrations.trainer_refusals import HOOKS, refuse_half_precision
from discreet.language import TASKS

pytestmark = pytest.mark.filterwarnings("ignore")

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=4, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


def trainer_for(
    folder: Path, kind: type = PrivateTrainer, *, model: Any = None, given: Any = (), **changes: Any
) -> Any:
    arguments = {"output_dir": str(folder / "hf"), "report_to": [], "use_cpu": True, "learning_rate": 1e-2} | changes
    return kind(
        model=with_lora(inner_model("Llama"), TASKS["causal-lm"]) if model is None else model,
        args=transformers.TrainingArguments(**arguments),
        train_dataset=field_rows("causal-lm", 40),
        plan=PLAN,
        options={"run": folder / "run", "engine": "bookkeeping"},
        **dict(given),
    )


@pytest.mark.parametrize("name", ["compute_loss", "training_step", "get_train_dataloader", "_clip_grad_norm"])
def test_a_hook_of_a_subclass_that_would_not_be_called_is_refused(name: str, tmp_path: Path) -> None:
    def hook(self: Any, *rest: Any, **named: Any) -> Any:
        return getattr(super(Mine, self), name)(*rest, **named)

    Mine: type = type("Mine", (PrivateTrainer,), {name: hook})
    with pytest.raises(InputError, match=rf"^Mine\.{name} would never be called in a private run: [^\n]+$"):
        trainer_for(tmp_path, Mine)


def test_so_is_one_of_a_mixin_and_one_that_is_put_onto_the_trainer(tmp_path: Path) -> None:
    class Weighted:
        def compute_loss(self, *rest: Any, **named: Any) -> Any: ...

    class Mine(Weighted, PrivateTrainer): ...

    with pytest.raises(InputError, match=r"Mine\.compute_loss would never be called"):
        trainer_for(tmp_path, Mine)
    trainer = trainer_for(tmp_path)
    trainer.training_step = lambda *_: torch.zeros(())
    with pytest.raises(InputError, match=r"training_step would never be called"):
        trainer.train()
    assert not (tmp_path / "run").exists()


def test_the_names_of_hooks_are_those_of_transformers() -> None:
    assert [name for name in HOOKS if not hasattr(transformers.Trainer, name)] == []


class Other(PrivateTrainer):
    """Overrides what a private run, or an evaluation after it, does call."""

    def create_optimizer(self, model: Any = None) -> Any:
        self.optimizer = torch.optim.SGD([one for one in self.model.parameters() if one.requires_grad], lr=0.1)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        self.lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, num_training_steps // 2)
        return self.lr_scheduler

    def log(self, logs: Any, start_time: Any = None) -> None:
        super().log(logs, start_time)


def test_hooks_that_are_called_may_be_overridden(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path, Other)
    assert trainer.train().charged_steps == 4
    assert trainer.lr_scheduler.get_last_lr() == pytest.approx([0.001])


def test_an_optimizer_that_was_given_and_weight_decay_count(tmp_path: Path) -> None:
    model = with_lora(inner_model("Llama"), TASKS["causal-lm"])
    mine = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.5)
    trainer = trainer_for(
        tmp_path / "given", model=model, given={"optimizers": (mine, None)}, lr_scheduler_type="linear"
    )
    trainer.train()
    assert trainer.optimizer is mine
    assert mine.param_groups[0]["lr"] == 0.0  # the schedule of the arguments has ended
    decayed = trainer_for(tmp_path / "decay", weight_decay=0.25)
    decayed.train()
    assert [group["weight_decay"] for group in decayed.optimizer.param_groups] == [0.25, 0.0]
    by_class = trainer_for(tmp_path / "class", given={"optimizer_cls_and_kwargs": (torch.optim.SGD, {"lr": 0.3})})
    by_class.train()
    assert isinstance(by_class.optimizer, torch.optim.SGD)


class Steps(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    def on_step_end(self, *_: Any, **__: Any) -> None: ...


class Predictions(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    def on_prediction_step(self, *_: Any, **__: Any) -> None: ...


def test_callbacks_of_private_steps_are_refused(tmp_path: Path) -> None:
    for one in (Steps(), Steps):
        with pytest.raises(
            InputError, match=r"callback Steps would not be told of .*\(on_step_end\).* told=\[FUNCTION\]"
        ):
            trainer_for(tmp_path, given={"callbacks": [one]})
    patience = transformers.EarlyStoppingCallback(2)
    with pytest.raises(InputError, match=r"EarlyStoppingCallback .* early=discreet\.training\.EarlyStopping"):
        trainer_for(tmp_path, given={"callbacks": [patience]}, eval_strategy="no")
    trainer = trainer_for(tmp_path, given={"callbacks": [Predictions()]})
    with pytest.raises(InputError, match="callback Steps would not be told"):
        trainer.add_callback(Steps())


def test_arguments_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^compute_loss_func would never be called in a private run: [^\n]+$"):
        trainer_for(tmp_path, given={"compute_loss_func": lambda *_, **__: torch.zeros(())})
    with pytest.raises(InputError, match="neftune_noise_alpha would be ignored"):
        trainer_for(tmp_path, neftune_noise_alpha=5.0)
    with pytest.raises(InputError, match="each trial of a search is charged"):
        trainer_for(tmp_path).hyperparameter_search()


@pytest.mark.parametrize("name", ["peft_config", "dataset_text_field", "formatting_func"])
def test_arguments_of_sfttrainer_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"PrivateTrainer takes no {name}; .* \(docs/migrating-from-trl\.md\)"):
        trainer_for(tmp_path, given={name: None})


def test_a_name_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model='org/tiny' is a name; give the model: AutoModelForCausalLM"):
        trainer_for(tmp_path, model="org/tiny")


def test_a_whole_model_in_half_precision_is_refused_before_a_charge(tmp_path: Path) -> None:
    """Steps on scales of one would be rounded away, which ends the run after them. Adapters are small numbers."""
    trainer = trainer_for(tmp_path, model=inner_model("Llama").bfloat16())
    with pytest.raises(InputError, match=r"torch\.bfloat16, which rounds .* dtype=torch\.float32, .* bf16=True"):
        trainer.train()
    assert not list(tmp_path.rglob("ledger*"))
    refuse_half_precision(with_lora(inner_model("Llama").bfloat16(), TASKS["causal-lm"]))


@pytest.mark.parametrize(("changes", "steps"), [({"eval_strategy": "epoch"}, [2, 4]), ({"eval_steps": 3}, [3, 4])])
def test_public_evaluations_are_in_the_log_history(changes: dict[str, Any], steps: list[int], tmp_path: Path) -> None:
    """An epoch is as many steps as draw each row once on average."""
    given = {"eval_dataset": field_rows("causal-lm", 8, seed=1)}
    trainer = trainer_for(tmp_path, given=given, **{"eval_strategy": "steps"} | changes)
    trained = trainer.train()
    assert [one.step for one in trained.evaluations] == steps
    wanted = [{"eval_loss": one.metrics["loss"], "step": one.step} for one in trained.evaluations]
    assert trainer.state.log_history == wanted
    assert trainer.state.global_step == 4


def test_they_are_so_in_every_process(tmp_path: Path) -> None:
    """Of which the first alone is told of steps."""
    said = torchrun(2, "shared_trainer.py", str(tmp_path))
    assert sorted(json.loads(line) for line in said.splitlines()) == [[0, 4, [2, 4]], [1, 4, [2, 4]]]


def test_a_collator_that_is_given_by_its_place_counts(tmp_path: Path) -> None:
    seen: list[int] = []

    def collator(rows: list[Any]) -> dict[str, Any]:
        seen.append(len(rows))
        return {name: torch.as_tensor(rows[0][name]).unsqueeze(0) for name in ("input_ids", "attention_mask")}

    arguments = transformers.TrainingArguments(output_dir=str(tmp_path / "hf"), report_to=[], use_cpu=True)
    model = with_lora(inner_model("Llama"), TASKS["causal-lm"])
    PrivateTrainer(
        model, arguments, collator, field_rows("causal-lm", 40), plan=PLAN, options={"run": tmp_path / "run"}
    ).train()
    assert set(seen) == {1}


def test_a_second_run_is_one_line_and_so_are_adapters_before_it(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path)
    with pytest.raises(
        InputError, match=r"^publish_adapters needs what a run returned, got a NoneType; call train\(\) f"
    ):
        publish_adapters(trainer.trained, tmp_path / "out")
    trainer.train_dataset, rows = trainer.train_dataset[:0], trainer.train_dataset
    for _ in range(2):
        with pytest.raises(InputError, match="draws its rows itself"):
            trainer.train()
    trainer.train_dataset = [row | {"position_ids": [0, 1, 0, 1, 0, 1]} for row in rows]
    with pytest.raises(InputError, match="is packed"):
        trainer.train()
    trainer.train_dataset = rows
    trainer.train()  # what was refused before anything was charged may be mended
    with pytest.raises(InputError, match=r"^this trainer has begun its run, .* make another PrivateTrainer"):
        trainer.train()
