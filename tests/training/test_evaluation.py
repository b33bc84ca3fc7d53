"""Metrics on public data: the mean of losses of single examples, whatever the model returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from problems import blobs, tiny_training
from torch import Tensor, nn

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
    )
    assert training.engine.name == "bookkeeping"
    training.run(evaluate_every=7, progress=False)
    with torch.no_grad():
        alone = [criterion(model(inputs[i : i + 1] + 0.1), targets[i : i + 1]) for i in range(5)]
    assert training.evaluations[-1].metrics == {"loss": pytest.approx(float(torch.stack(alone).mean()), rel=1e-5)}


def test_accuracy_is_for_one_tensor_of_scores_and_class_indices() -> None:
    inputs, labels = blobs()
    scores = F.one_hot(labels, 3).float()
    exact = nn.Linear(3, 3, bias=False)
    nn.init.eye_(exact.weight)
    assert evaluate(exact, nn.CrossEntropyLoss(), scores, labels)["accuracy"] == 1.0
    pairs = Heads(lambda a, b: (a, b))
    assert set(evaluate(pairs, lambda x, y: F.cross_entropy(x[0], y), inputs, labels)) == {"loss"}
