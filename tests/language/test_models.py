"""Models of transformers on rows: their own scores, no row depends on another, and sums are those of the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from language_families import FAMILIES, field_rows, inner_model, on_rows, rows_for, stacked, with_lora
from torch import Tensor, nn

import discreet
from discreet.clipping import ENGINES, Chunk, Clip, private_parameters
from discreet.clipping.losses import each_loss
from discreet.core.errors import UnsupportedModel
from discreet.language import TASKS, TransformersModel, task_of_model

pytestmark = pytest.mark.filterwarnings("ignore")

ALIKE = [
    ("GPT-2", "causal-lm"),
    ("GPT-2", "classification"),
    ("Llama", "causal-lm"),
    ("Qwen3", "causal-lm"),
    ("Gemma", "causal-lm"),
    ("Mistral", "regression"),
    ("Phi", "causal-lm"),
    ("GPT-NeoX, Pythia", "causal-lm"),
    ("BERT", "masked-lm"),
    ("BERT", "token-classification"),
    ("RoBERTa", "masked-lm"),
    ("RoBERTa", "multi-label"),
    ("T5", "seq2seq"),
    ("BART", "seq2seq"),
    ("ViT", "image-classification"),
]
"""Families, each with a task."""

BATCHED = [pair for pair in ALIKE if pair[0] not in ("T5", "BART")]
"""Those whose layers all see examples along axis 0."""


def model_for(name: str, task: str, **changes: Any) -> TransformersModel:
    labels = {"num_labels": 1} if task == "regression" else {"num_labels": 2}
    return on_rows(inner_model(name, task, **labels | changes), task)


@pytest.mark.parametrize(("name", "task"), ALIKE)
def test_scores_are_those_of_the_model_itself(name: str, task: str) -> None:
    """At the tokens that are attended to: as if transformers had been given the named inputs."""
    model = model_for(name, task).eval()
    inputs, targets = stacked(rows_for(task, 6))
    named = model.layout.apart(inputs)
    wanted = TASKS[task].scores(model.inner(**named).logits)
    found = model(inputs)
    if "attention_mask" in named and task != "seq2seq" and wanted.dim() == 3:
        seen = named["attention_mask"].bool().unsqueeze(1)
        wanted, found = wanted * seen, found * seen
    assert torch.allclose(found, wanted, atol=1e-5)
    assert each_loss(TASKS[task].loss(), found, targets).isfinite().all()


@pytest.mark.parametrize(("name", "task"), ALIKE)
def test_no_other_row_changes_the_loss_of_a_row(name: str, task: str) -> None:
    """In the batch beside it, others are replaced: by rows with more padding, with none, and by its own copies."""
    model, loss = model_for(name, task).double().eval(), TASKS[task].loss()
    inputs, targets = stacked(rows_for(task, 6))
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    targets = targets.double() if targets.is_floating_point() else targets
    wanted = each_loss(loss, model(inputs), targets)
    others, theirs = stacked(rows_for(task, 6, seed=1))
    for row in range(3):
        for neighbours in (others.to(inputs.dtype), inputs[row].expand_as(inputs), torch.ones_like(inputs)):
            changed, labels = neighbours.clone(), theirs.clone().to(targets.dtype)
            changed[row], labels[row] = inputs[row], targets[row]
            found = each_loss(loss, model(changed), labels)[row]
            assert torch.isclose(found, wanted[row], rtol=1e-9, atol=1e-12)


def norms(engine: str, model: nn.Module, loss: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The norm of each row's gradient, which is not clipped."""
    found = []
    for row in range(len(inputs)):
        x, y = inputs[row : row + 1], targets[row : row + 1]
        one = ENGINES[engine].clipped_sum(model, loss, Chunk(x, y), Clip(1e9, 2.0**-30))
        found.append(torch.cat([part.double().flatten() for part in one.values()]).norm())
    return torch.stack(found)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize(("name", "task"), BATCHED)
def test_norms_and_clipped_sums_are_those_of_the_reference(name: str, task: str, lora: bool) -> None:
    """Where every row is clipped to a hundredth of its own norm, the sum has the norm of each row in it."""
    model = model_for(name, task)
    if lora:
        model = on_rows(with_lora(model.inner, TASKS[task]), task)
    model.train()
    inputs, targets = stacked(rows_for(task, 6))
    for loss in (TASKS[task].loss(), TASKS[task].loss(reduction="sum")):
        wanted = norms("reference", model, loss, inputs, targets)
        assert torch.allclose(norms("bookkeeping", model, loss, inputs, targets), wanted, rtol=1e-4)
        for norm in (float(wanted.min()) / 100, float(wanted.median())):
            clip = Clip(norm, 2.0**-30)
            one, other = (
                ENGINES[name].clipped_sum(model, loss, Chunk(inputs, targets), clip)
                for name in ("reference", "bookkeeping")
            )
            assert one.keys() == private_parameters(model).keys()
            apart = torch.cat([(one[key].double() - other[key].double()).flatten() for key in one])
            assert apart.norm() < 1e-3 * norm


@pytest.mark.parametrize(
    ("name", "engine"), [("T5", "bookkeeping"), ("BART", "bookkeeping"), ("DeBERTa-v2, v3", "vmap")]
)
def test_tables_that_all_rows_share_go_to_the_engine_for_them(name: str, engine: str) -> None:
    """Relative positions are looked up once for all rows. Where a layer works on these, before they meet the rows,
    `auto` takes `vmap`, in which no row meets another."""
    task = FAMILIES[name].task
    model = on_rows(inner_model(name), task)
    plan = discreet.Plan.poisson(population=40, batch=20, steps=1, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = discreet.Training(plan, model, TASKS[task].loss(), optimizer, rows_for(task, 40))
    assert training.engine.name == engine


def test_a_causal_model_is_trained_and_certified(tmp_path: Any) -> None:
    model = model_for("GPT-2", "causal-lm")
    plan = discreet.Plan.poisson(population=40, batch=20, steps=3, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    public = discreet.PublicData(test=stacked(rows_for("causal-lm", 8, seed=1)))
    options: dict[str, Any] = {"public": public, "engine": "bookkeeping", "run": tmp_path / "run"}
    loss = TASKS["causal-lm"].loss(label_smoothing=0.1)
    trained = discreet.Training(plan, model, loss, optimizer, rows_for("causal-lm", 40), **options).run(progress=False)
    assert trained.evaluations[-1].metrics["loss"] > 0
    discreet.publish(trained, tmp_path / "out")
    assert discreet.verify(tmp_path / "out").accepted


def test_losses_that_balance_experts_over_the_batch_are_refused() -> None:
    inner = inner_model("Mixtral", output_router_logits=True)
    with pytest.raises(UnsupportedModel, match="balances the load of its experts over the whole batch"):
        TransformersModel(inner, "causal-lm")
    rows = stacked(rows_for("causal-lm", 4))[0]
    inner.config.output_router_logits = False
    assert TransformersModel(inner, "causal-lm")(rows).shape == (4, 32, 5)


@pytest.mark.parametrize("task", ["causal-lm", "masked-lm", "token-classification", "classification", "seq2seq"])
def test_a_model_says_what_it_is_for(task: str) -> None:
    name = {"causal-lm": "GPT-2", "seq2seq": "T5"}.get(task, "BERT")
    assert task_of_model(inner_model(name, task)).name == task
    assert len(field_rows(task, 3)) == 3
    if task == "classification":
        several = inner_model(name, task, problem_type="multi_label_classification")
        assert task_of_model(several).name == "multi-label"


def test_scores_of_many_words_are_made_for_few_rows_at_once() -> None:
    """A checkpoint of 50,000 words returns 50 MB for a row of 256 tokens."""
    from discreet.training.public.evaluation import rows_at_once

    inputs, _ = stacked(rows_for("causal-lm", 4))
    assert rows_at_once(model_for("GPT-2", "causal-lm"), inputs[:1], 512) == 512
    seen: list[int] = []

    class Large(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            seen.append(len(rows))
            return torch.zeros(1).expand(len(rows), 50_000, 256)

    assert rows_at_once(Large(), inputs[:1], 512) == 5
    assert seen == [1]
