"""Models with functions under `torch.utils.checkpoint`, and columns that lie in two ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from mixing_modules import CLASSES, FEATURES, Two
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet.clipping import ENGINES, Chunk, Clip

CLIP, LOSS = Clip(1.0, 2.0**-30), nn.CrossEntropyLoss()

computed_again: Any = partial(checkpoint, use_reentrant=False)


class Between(Two):
    """Something between two layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def between(self, h: Tensor) -> Tensor:
        return self.function(h)


def running(function: Callable[[Tensor], Tensor]) -> Callable[[int], None]:
    """Clipped sums of a model with the function between two layers."""
    model = Between(function)

    def run(rows: int) -> None:
        inputs, targets = torch.randn(rows, FEATURES), torch.arange(rows) % CLASSES
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP)

    return run


def two_ways(h: Tensor) -> tuple[Tensor, Tensor]:
    """Two columns one below the other, and row by row: both of shape (2 x rows, 1)."""
    z, w = h[:, :1] * 1.0, h[:, 1:2] * 1.0
    return torch.cat([z, w]), torch.stack([z, w], 1).view(2 * len(h), 1)


def below(h: Tensor, column: Tensor) -> Tensor:
    """What was one below the other, side by side again, in the place of the first two columns."""
    return torch.cat([column[: len(h)], column[len(h) :], h[:, 2:]], 1)


def by_turns(first: Callable[..., Any], later: Callable[..., Any]) -> Callable[..., Any]:
    """One function in the first call, another in all later ones."""
    calls: list[None] = []

    def function(*given: Any) -> Any:
        calls.append(None)
        return (first if len(calls) == 1 else later)(*given)

    return function
