"""Modules that let examples of a batch influence each other, each in its own way."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

FEATURES, TIME = 6, 4


class By(nn.Module):
    """A module that is a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Gated(nn.Module):
    """A branch that mixes, behind a gate that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gate * (x - x.mean(0))


class Average(nn.Module):
    """Keeps a running mean, in an attribute that no state dictionary has."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: Tensor | float = 0.0

    def forward(self, x: Tensor) -> Tensor:
        before, self.mean = self.mean, x.detach().mean()
        return x - before


class Counter(nn.Module):
    """Remembers what it saw in a buffer, and does not use it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.detach().abs().sum()
        return x


class Running:
    """Divides by the largest number so far, and masks a logit."""

    def __init__(self, mask: Tensor, fill: float) -> None:
        self.mask, self.fill, self.largest = mask, fill, 0.0

    def __call__(self, x: Tensor) -> Tensor:
        self.largest = max(self.largest, float(x.detach().abs().max()))
        return (x / self.largest).masked_fill(self.mask, self.fill)


class OwnGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(7)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(x.shape, generator=self.generator)


class MeanOf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0)


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.statistics = MeanOf()

    def forward(self, x: Tensor) -> Tensor:
        return x - self.statistics(x)


class Attention(nn.Module):
    """Attention over axis 1 of what it is given: examples, if it is given (time, examples, features)."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(FEATURES, 2, batch_first=first)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


def sequence(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh(), *layers, nn.Linear(FEATURES, 3))
