"""A data set in two parts: one to train on, private, and one to evaluate on, declared public."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Split:
    """(inputs, targets) for training and, where there is one, for public evaluation."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None
