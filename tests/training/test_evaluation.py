"""Metrics on public data: the mean of losses of single examples, whatever the model returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from problems import blobs, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet.plan import Metric
from discreet.training.public.evaluation import evaluate


class Heads(nn.Module):
    """A class and a number, as `pack` puts them together."""

    def __init__(self, pack: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.kind, self.size, self.pack = nn.Linear(4, 3), nn.Linear(4, 1), pack

    def forward(self, x: Tensor) -> Any:
        return self.pack(self.kind(x), self.size(x))


def loss(kind: Tensor, size: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(kind, target[:, 0].long()) + 0.1 * F.mse_loss(size, target[:, 1:])


PACKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tuple": (lambda a, b: (a, b), lambda x, y: loss(*x, y)),
    "dictionary": (lambda a, b: {"a": a, "b": b}, lambda x, y: loss(x["a"], x["b"], y)),
    "nested": (lambda a, b: [a, {"b": (b,)}], lambda x, y: loss(x[0], x[1]["b"][0], y)),
}


@pytest.mark.parametrize("name", PACKS)
def test_a_model_of_several_outputs_is_trained_and_evaluated(name: str, tmp_path: Path) -> None:
    pack, criterion = PACKS[name]
    inputs, labels = blobs()
    targets = torch.stack([labels.float(), inputs.sum(1)], 1)
    model = Heads(pack)
    training = tiny_training(
        tmp_path,
        model=model,
        data=(inputs, targets),
        criterion=criterion,
        public_test=(inputs[:5] + 0.1, targets[:5].clone()),
        engine="bookkeeping",
    )
    training.run(evaluate_every=7, progress=False)
    with torch.no_grad():
        alone = [criterion(model(inputs[i : i + 1] + 0.1), targets[i : i + 1]) for i in range(5)]
    assert training.evaluations[-1].metrics == {"loss": pytest.approx(float(torch.stack(alone).mean()), rel=1e-5)}


def test_public_rows_are_looked_at_by_steps_of_training_whatever_else_is_charged(tmp_path: Path) -> None:
    plan = tiny_plan(metrics=[Metric(noise=5.0, every=2)])
    training = tiny_training(tmp_path, plan=plan, public_test=blobs(9, seed=1))
    training.run(evaluate_every=3, progress=False)
    assert (plan.steps, plan.charges) == (7, 10)
    assert [plan.step_at(one.step) for one in training.evaluations] == [3, 6, 7]


def test_accuracy_is_for_one_tensor_of_scores_and_class_indices() -> None:
    inputs, labels = blobs()
    scores = F.one_hot(labels, 3).float()
    exact = nn.Linear(3, 3, bias=False)
    nn.init.eye_(exact.weight)
    assert evaluate(exact, nn.CrossEntropyLoss(), scores, labels)["accuracy"] == 1.0
    pairs = Heads(lambda a, b: (a, b))
    assert set(evaluate(pairs, lambda x, y: F.cross_entropy(x[0], y), inputs, labels)) == {"loss"}


class Own(nn.CrossEntropyLoss):
    """A loss of somebody's own, which notes how many rows it is given."""

    rows: ClassVar[list[int]] = []

    def forward(self, output: Tensor, targets: Tensor) -> Tensor:
        self.rows.append(len(targets))
        return super().forward(output, targets)


@pytest.mark.parametrize(
    "criterion",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.MultiMarginLoss(),
        nn.NLLLoss(),
        Own(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_loss_is_that_of_each_row_alone(criterion: nn.Module) -> None:
    torch.manual_seed(3)
    model, inputs, targets = nn.Linear(4, 3), torch.randn(1500, 4), torch.randint(3, (1500,))
    with torch.no_grad():
        alone = [float(criterion(model(inputs[i : i + 1]), targets[i : i + 1]).sum()) for i in range(1500)]
    Own.rows.clear()
    assert evaluate(model, criterion, inputs, targets)["loss"] == pytest.approx(sum(alone) / 1500, rel=1e-6)
    assert set(Own.rows) <= {1}
