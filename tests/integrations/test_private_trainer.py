"""PrivateTrainer for every task, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from language_families import field_rows, inner_model, transformers, with_lora
from torch.utils.data import DataLoader, IterableDataset

import discreet
from discreet.core.errors import InputError, PrivacyViolation, UnsupportedModel
from discreet.language import TASKS

pytestmark = pytest.mark.filterwarnings("ignore")

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


def trainer_for(folder: Path, model: Any, rows: Any, **changes: Any) -> Any:
    from discreet.integrations.huggingface import PrivateTrainer

    keywords = ("data_collator", "length", "label_length", "task", "eval_dataset", "columns", "early", "told", "plan")
    given = {name: changes.pop(name) for name in keywords if name in changes}
    arguments = {"output_dir": str(folder / "hf"), "report_to": [], "use_cpu": True, "learning_rate": 1e-2} | changes
    options = {"run": folder / "run", "engine": discreet.EngineOptions("bookkeeping")}
    return PrivateTrainer(
        model=model,
        args=transformers.TrainingArguments(**arguments),
        train_dataset=rows,
        options=options,
        **{"plan": PLAN} | given,
    )


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("Qwen2", "causal-lm"),
        ("BERT", "masked-lm"),
        ("T5", "seq2seq"),
        ("BERT", "token-classification"),
        ("RoBERTa", "multi-label"),
        ("GPT-2", "regression"),
        ("ViT", "image-classification"),
    ],
)
def test_every_task_is_trained_with_adapters(name: str, task: str, tmp_path: Path) -> None:
    kinds = {"multi-label": "multi_label_classification", "regression": "regression"}
    changes = {"problem_type": kinds[task], "num_labels": 1 + (task == "multi-label")} if task in kinds else {}
    model = with_lora(inner_model(name, task, **changes), TASKS[task])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    rows = field_rows(task, 40)
    trainer = trainer_for(tmp_path, model, rows, eval_dataset=field_rows(task, 8, seed=1))
    trained = trainer.train()
    assert trained.charged_steps == 2
    assert trained.evaluations[-1].metrics["loss"] > 0
    moved = {key for key, value in trainer.model.state_dict().items() if not torch.equal(value, before[key])}
    assert moved == {key for key, one in model.named_parameters() if one.requires_grad}
    trainer.save_model(str(tmp_path / "saved"))
    saved = type(model).from_pretrained(inner_model(name, task, **changes), str(tmp_path / "saved")).state_dict()
    assert all(torch.equal(saved[key], value) for key, value in trainer.model.state_dict().items())


def test_arguments_that_count(tmp_path: Path) -> None:
    """The schedule is over the steps of the plan, smoothing and checkpoints are on, and rows go through the collator
    one by one and are filled up to the public length."""
    seen: list[int] = []

    def collator(rows: list[Any]) -> dict[str, Any]:
        seen.append(len(rows))
        return {name: torch.as_tensor(rows[0][name]).unsqueeze(0) for name in ("input_ids", "attention_mask")}

    rows = [row | {"text": "x"} for row in field_rows("causal-lm", 40)]
    changes = {"lr_scheduler_type": "linear", "label_smoothing_factor": 0.1, "gradient_checkpointing": True}
    model = with_lora(inner_model("Llama"), TASKS["causal-lm"])
    trainer = trainer_for(tmp_path, model, rows, data_collator=collator, length=8, **changes)
    trainer.train()
    assert set(seen) == {1}
    assert trainer.lr_scheduler.get_last_lr() == [0.0, 0.0]  # of weights that are decayed, and of others
    assert trainer._loss.label_smoothing == 0.1
    assert trainer.trained.model.inner.is_gradient_checkpointing


LONGER: dict[str, Any] = {
    "population": 40,
    "batch": 20,
    "steps": 4,
    "clip_norm": 1.0,
    "delta": 1e-3,
    "noise_multiplier": 1.0,
}


def test_a_schedule_ends_with_the_steps_of_a_plan_that_buys_metrics(tmp_path: Path) -> None:
    metrics = [discreet.plan.Metric(kind="accuracy", noise=50.0, every=2)]
    plan, rows = discreet.Plan.poisson(**LONGER, metrics=metrics), field_rows("classification", 40)
    assert (plan.steps, plan.charges) == (4, 6)
    model = with_lora(inner_model("BERT", "classification"), TASKS["classification"])
    trainer = trainer_for(tmp_path, model, rows, plan=plan, lr_scheduler_type="linear")
    assert trainer.train().charged_steps == 6
    assert trainer.lr_scheduler.get_last_lr() == [0.0, 0.0]  # of weights that are decayed, and of others


@pytest.mark.parametrize(("given", "steps"), [(1, [1, 2]), (0.6, [2]), (2, [2])])
def test_evaluations_are_as_frequent_as_the_arguments_say(given: float, steps: list[int], tmp_path: Path) -> None:
    model, rows = with_lora(inner_model("Llama"), TASKS["causal-lm"]), field_rows("causal-lm", 40)
    changes = {"eval_strategy": "steps", "eval_steps": given, "eval_dataset": field_rows("causal-lm", 8, seed=1)}
    trained = trainer_for(tmp_path, model, rows, **changes).train()
    assert [one.step for one in trained.evaluations] == steps


def test_the_best_model_is_chosen_by_a_rule_of_the_run(tmp_path: Path) -> None:
    told: list[int] = []
    model, rows = with_lora(inner_model("Llama"), TASKS["causal-lm"]), field_rows("causal-lm", 40)
    changes = {"eval_dataset": field_rows("causal-lm", 8, seed=1), "plan": discreet.Plan.poisson(**LONGER)}
    never_better = discreet.training.EarlyStopping("loss", patience=1, least=100.0)
    after = [lambda one: told.append(one.step)]
    trainer_for(tmp_path, model, rows, early=never_better, told=after, **changes).train()
    assert told[:2] == [1, 2]
    assert 3 not in told
    best = {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 1}
    with pytest.raises(InputError, match=r"load_best_model_at_end has no checkpoints .* early="):
        trainer_for(tmp_path, model, rows, save_steps=1, **best, **changes)


class Forgets(torch.optim.SGD):
    """Leaves the first weight as it is."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        kept = self.param_groups[0]["params"][0].detach().clone()
        super().step()
        with torch.no_grad():
            self.param_groups[0]["params"][0].copy_(kept)


def test_a_weight_that_does_not_move_ends_the_run_after_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_for(tmp_path, with_lora(inner_model("Llama"), TASKS["causal-lm"]), field_rows("causal-lm", 40))
    monkeypatch.setattr(trainer, "get_optimizer_cls_and_kwargs", lambda *_: (Forgets, {"lr": 0.1}))
    with pytest.raises(PrivacyViolation, match="is trainable and did not move"):
        trainer.train()


def test_warm_up_begins_with_a_rate_of_zero_and_is_checked_after_it(tmp_path: Path) -> None:
    rows = field_rows("causal-lm", 40)
    trainer = trainer_for(tmp_path, with_lora(inner_model("Llama"), TASKS["causal-lm"]), rows, warmup_steps=1)
    assert trainer.train().charged_steps == 2


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(field_rows("causal-lm", 4))


def test_loaders_and_steps_that_are_not_sampled_are_refused(tmp_path: Path) -> None:
    model, rows = inner_model("Llama"), field_rows("causal-lm", 40)
    for given in (DataLoader(rows, batch_size=4), Stream()):
        trainer = trainer_for(tmp_path, model, given, max_steps=2)
        with pytest.raises(InputError, match="draws its rows itself"):
            trainer.train()
    trainer = trainer_for(tmp_path, model, rows)
    with pytest.raises(InputError, match="has no loader"):
        trainer.get_train_dataloader()
    with pytest.raises(InputError, match="neither clipped nor noised"):
        trainer.training_step(model, {})
    assert not (tmp_path / "run").exists()


def test_packed_rows_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    rows = field_rows("causal-lm", 40)
    rows[7] |= {"position_ids": [0, 1, 2, 0, 1, 2]}
    with pytest.raises(InputError, match="row 7 is packed of several sequences"):
        trainer_for(tmp_path, inner_model("Llama"), rows).train()
    assert not (tmp_path / "run" / "ledger.sqlite").exists()


def test_a_loss_of_the_whole_batch_is_refused(tmp_path: Path) -> None:
    model = inner_model("Mixtral", output_router_logits=True)
    with pytest.raises(UnsupportedModel, match="balances the load of its experts"):
        trainer_for(tmp_path, model, field_rows("causal-lm", 40)).train()


def test_a_collator_with_random_numbers_of_its_own_is_refused(tmp_path: Path) -> None:
    """What it makes of a row would depend on the rows before it, in a way that a public seed fixes."""

    class Mapped:
        def __init__(self) -> None:
            self.generator = torch.Generator()

        def __call__(self, rows: Any) -> Any:
            return rows

    model, rows = inner_model("BERT", "masked-lm"), field_rows("masked-lm", 40)
    for collator in (transformers.DataCollatorForLanguageModeling(Tokens(), seed=0), Mapped()):
        with pytest.raises(InputError, match="random numbers of its own"):
            trainer_for(tmp_path, model, rows, data_collator=collator).train()


class Tokens:
    """As much of a tokenizer as a collator looks at."""

    mask_token = "m"


@pytest.mark.parametrize("declared", [None, ("input_ids", "attention_mask", "token_type_ids")])
def test_the_inputs_of_the_model_do_not_depend_on_a_row(declared: Any, tmp_path: Path) -> None:
    """Whether the first row has one more field is that row's own secret."""
    rows = [row | {"token_type_ids": [0] * len(row["input_ids"])} for row in field_rows("classification", 40)]
    bare = [{name: row[name] for name in row if name != "token_type_ids"} for row in rows[:1]] + rows[1:]
    given = {} if declared is None else {"columns": declared}
    found = [
        trainer_for(tmp_path, inner_model("BERT", "classification"), one, **given)._rows(one) for one in (rows, bare)
    ]
    assert found[0].layout.columns == found[1].layout.columns == (declared or ("input_ids", "attention_mask"))
    if declared is not None:
        with pytest.raises(InputError, match="row 0 lacks 'token_type_ids'"):
            found[1][0]


def test_columns_of_a_data_set_are_its_public_schema(tmp_path: Path) -> None:
    from datasets import Dataset

    rows = [row | {"token_type_ids": [0] * len(row["input_ids"])} for row in field_rows("classification", 40)]
    table = Dataset.from_list([{name: torch.as_tensor(value).tolist() for name, value in row.items()} for row in rows])
    found = trainer_for(tmp_path, inner_model("BERT", "classification"), table)._rows(table)
    assert found.layout.columns == ("input_ids", "attention_mask", "token_type_ids")
