"""A data set in two parts: one to train on, private, and one to evaluate on, declared public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from discreet.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Split:
    """(inputs, targets) for training and, where there are any, for public evaluation and for public decisions.

    `units`: whose each row for training is, where the data says so; shape (rows,). `ids`: a name of each row for
    training that it keeps whatever other rows there are; shape (rows,). `values`: what number each class stands for,
    where classes do (ratings of one to five stars). `seen`: the shape of a row before fixed features, if the inputs are
    features.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None
    validation: tuple[Tensor, Tensor] | None = None
    units: np.ndarray | None = None
    ids: np.ndarray | None = None
    values: tuple[float, ...] | None = None
    seen: tuple[int, ...] | None = None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row as the data has it."""
        return tuple(self.train[0].shape[1:]) if self.seen is None else self.seen


def cut(
    test: tuple[Tensor, Tensor] | None, share: float
) -> tuple[tuple[Tensor, Tensor] | None, tuple[Tensor, Tensor] | None]:
    """Public rows as (test, validation): the first `share` is for decisions. `InputError` if a part is empty."""
    if not share or test is None:
        return test, None
    inputs, targets = test
    taken = round(share * len(targets))
    if not 0 < taken < len(targets):
        raise InputError(f"recipe: validation {share:g} of {len(targets)} public rows leaves a part empty")
    return (inputs[taken:], targets[taken:]), (inputs[:taken], targets[:taken])


def last_public(
    name: str, train: tuple[Tensor, Tensor], public: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor] | None]:
    """The rows of a training part as (train, validation): the last `public` are declared public, for decisions."""
    inputs, targets = train
    rows = len(targets) - public
    if public < 0 or rows < 1:
        raise InputError(f"{name}: public must be 0 to {len(targets) - 1} of the training rows, got {public}")
    return (inputs[:rows], targets[:rows]), (inputs[rows:], targets[rows:]) if public else None


def table(_path: object) -> Split:
    """Tables are read with their schema, by `discreet train`, and not as a whole."""
    raise InputError("a table is trained on with: discreet train TABLE --target COLUMN --schema FILE.yaml")
