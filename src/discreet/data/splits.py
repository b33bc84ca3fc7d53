"""A data set in two parts: one to train on, private, and one to evaluate on, declared public."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Split:
    """(inputs, targets) for training and, where there are any, for public evaluation and for public decisions."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None
    validation: tuple[Tensor, Tensor] | None = None
