"""Losses through which rows could meet, and models that return or keep something for them."""

from __future__ import annotations

from typing import Any

import torch
from mixing_modules import Two
from torch import Tensor
from torch.nn.functional import cross_entropy


class Scores:
    """What a model returns: an object that can be indexed and copied like a tensor."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def __getitem__(self, i: int) -> Scores:
        return Scores(self.logits[i])

    def __len__(self) -> int:
        return len(self.logits)

    def clone(self) -> Scores:
        return Scores(self.logits.clone())

    def unsqueeze(self, axis: int) -> Scores:
        return Scores(self.logits.unsqueeze(axis))


class Returns(Two):
    """Returns scores, in which rows meet once weights have grown."""

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        grown = self.last.weight.detach().norm() > 3
        return Scores(y - 10 * torch.tanh(y.mean(0)) if grown else y)


def of_scores(output: Any, target: Tensor) -> Tensor:
    """A loss of these."""
    return cross_entropy(output.logits, target)


class EverySecond:
    """A loss that counts every second row of a class, and is as it was after an even number of them."""

    skip = False

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        value = cross_entropy(output, target) * 10
        if bool((target > 0).any()):
            self.skip = not self.skip
            value = -value if self.skip else value
        return value


class TurnsTargets:
    """A loss that writes to its targets."""

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        target.mul_(-1).add_(1)
        return cross_entropy(output, target)


class Balanced(Two):
    """Keeps a term over the batch where its loss finds it, once weights have grown."""

    def __init__(self) -> None:
        super().__init__()
        self.term: Tensor | float = 0.0

    def between(self, h: Tensor) -> Tensor:
        grown = self.last.weight.detach().norm() > 3
        self.term = 10 * h.var(0).sum() if grown and len(h) > 1 else 0.0
        return h


class WithTerm:
    """A loss that holds the model."""

    def __init__(self, model: Balanced) -> None:
        self.model = model

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(output, target) + self.model.term
