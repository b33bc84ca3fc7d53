"""A data set in two parts: private rows to train on, and rows declared public to evaluate on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from discreet.core.errors import InputError

Part = tuple[Tensor, Tensor]
"""Inputs and targets."""


@dataclass(frozen=True, slots=True)
class Split:
    """(inputs, targets) for training and, if any, for public evaluation and public decisions.

    `units`: the user of each training row, where the data has users; shape (rows,). `ids`: an identifier of each
    training row that does not depend on other rows; shape (rows,). `values`: the number that each class stands for, if
    any (ratings of one to five stars). `seen`: the shape of a row before fixed features, if the inputs are features.
    `public`: rows declared public whose gradient joins every step.
    """

    train: Part
    test: Part | None
    validation: Part | None = None
    units: np.ndarray | None = None
    ids: np.ndarray | None = None
    values: tuple[float, ...] | None = None
    seen: tuple[int, ...] | None = None
    public: Part | None = None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row as the data has it."""
        return tuple(self.train[0].shape[1:]) if self.seen is None else self.seen

    def through(self, front_end: Callable[[Tensor], Tensor]) -> Split:
        """The split with the inputs of all its rows, public ones too, put through a front end."""

        def seen(part: Part | None) -> Part | None:
            return None if part is None else (front_end(part[0]), part[1])

        train = front_end(self.train[0]), self.train[1]
        return replace(
            self, train=train, test=seen(self.test), validation=seen(self.validation), public=seen(self.public)
        )


def cut(test: Part | None, share: float) -> tuple[Part | None, Part | None]:
    """Public rows as (test, validation); the first `share` of the rows is for validation. `InputError` if a part is
    empty."""
    if not share or test is None:
        return test, None
    inputs, targets = test
    taken = round(share * len(targets))
    if not 0 < taken < len(targets):
        raise InputError(f"recipe: validation {share:g} of {len(targets)} public rows leaves a part empty")
    return (inputs[taken:], targets[taken:]), (inputs[:taken], targets[:taken])


def divided(name: str, train: Part, test: Part, *, public: int = 0, held_out: int = 0) -> Split:
    """A data set with identified rows. The last `public` training rows are declared public, for validation. The last
    `held_out` training rows are for evaluation in place of `test`, which is kept for the end."""
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
    """Refused: `discreet train` reads tables with their schema, and in blocks."""
    raise InputError("a table is trained on with: discreet train TABLE --target COLUMN --schema FILE.yaml")
