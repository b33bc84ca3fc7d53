"""A data set in two parts: one to train on, private, and one to evaluate on, declared public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from discreet.core.errors import InputError

Part = tuple[Tensor, Tensor]
"""Inputs and targets."""


@dataclass(frozen=True, slots=True)
class Split:
    """(inputs, targets) for training and, where there are any, for public evaluation and for public decisions.

    `units`: whose each row for training is, where the data says so; shape (rows,). `ids`: a name of each row for
    training that it keeps whatever other rows there are; shape (rows,). `values`: what number each class stands for,
    where classes do (ratings of one to five stars). `seen`: the shape of a row before fixed features, if the inputs are
    features. `public`: rows declared public whose gradient joins every step.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None
    validation: tuple[Tensor, Tensor] | None = None
    units: np.ndarray | None = None
    ids: np.ndarray | None = None
    values: tuple[float, ...] | None = None
    seen: tuple[int, ...] | None = None
    public: Part | None = None

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


def divided(name: str, train: Part, test: Part, *, public: int = 0, held_out: int = 0) -> Split:
    """A data set with named rows. The last `public` rows for training are declared public: they validate. With
    `held_out`, the last rows for training are what is evaluated on in place of `test`, which is left for the end."""
    rows = len(train[1])
    if public < 0 or held_out < 0 or public + held_out >= rows:
        raise InputError(
            f"{name}: public and held_out must leave some of the {rows} training rows, got {public} and {held_out}"
        )
    kept, trained = rows - held_out, rows - held_out - public
    validation = _rows(train, trained, kept) if public else None
    test = _rows(train, kept, rows) if held_out else test
    return Split(_rows(train, 0, trained), test, validation, ids=np.arange(trained))


def _rows(part: Part, start: int, stop: int) -> Part:
    return part[0][start:stop], part[1][start:stop]


def table(_path: object) -> Split:
    """Tables are read with their schema, by `discreet train`, and not as a whole."""
    raise InputError("a table is trained on with: discreet train TABLE --target COLUMN --schema FILE.yaml")
