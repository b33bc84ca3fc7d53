"""Predictions of private rows, one row at a time, so that each depends on no other row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import unit_seeds
from discreet.clipping.separation import Memory
from discreet.clipping.separation.copies import copied
from discreet.core.array_types import IntArray
from discreet.data import PrivateData
from discreet.training.preflight.random_rows import random_rows
from discreet.training.private_metrics.read_only import read_only

_AT_ONCE = 1024

Row = tuple[Tensor, Tensor]
"""Inputs and target, with a batch axis of length 1."""

Value = Callable[[nn.Module, Criterion, Tensor, Tensor], float]
"""A value of one row, from a model and a loss. It never raises."""


class _Remembered(Exception):
    """A unit changed the copy of the model."""


def predicted(model: nn.Module, data: PrivateData, rows: IntArray) -> Iterator[Row]:
    """(output, target) of each row in turn, in evaluation mode and without gradients, by a copy of the model."""
    twin, _ = copied(model, nn.CrossEntropyLoss())  # what it remembers of them does not stay
    with evaluation_mode(twin):
        for inputs, target in one_by_one(twin, data, rows):
            with torch.no_grad():
                output = twin(inputs)
            yield output, target


def one_by_one(model: nn.Module, data: PrivateData, rows: IntArray) -> Iterator[Row]:
    """(inputs, target) of each row in turn, with a batch axis of length 1, on the model's device."""
    device = next(model.parameters()).device
    for start in range(0, len(rows), _AT_ONCE):
        inputs, targets = data.fetch(rows[start : start + _AT_ONCE])
        for i in range(len(targets)):
            yield inputs[i : i + 1].clone().to(device), targets[i : i + 1].to(device)


def values_of_rows(
    value: Value, model: nn.Module, criterion: Criterion, data: PrivateData, rows: IntArray
) -> list[float]:
    """The value of each row, which depends on that row alone."""

    def units() -> Iterator[list[Row]]:
        return ([row] for row in one_by_one(model, data, rows))

    return [found[0] for found in _values(value, model, criterion, data, units)]


def values_of_units(
    value: Value, model: nn.Module, criterion: Criterion, data: PrivateData, units: IntArray
) -> list[list[float]]:
    """The values of the rows of each unit, which depend on that unit alone."""
    groups = data.groups
    assert groups is not None

    def rows() -> Iterator[list[Row]]:
        for unit in units:
            places = np.arange(groups.counts(np.array([unit]))[0])
            yield list(one_by_one(model, data, groups.rows(int(unit), places)))

    return _values(value, model, criterion, data, rows)


def _values(
    value: Value,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    units: Callable[[], Iterable[list[Row]]],
) -> list[list[float]]:
    """Values from copies of `model` and `criterion`, which themselves see no private row.

    One copy is enough if no unit changes it; otherwise all is redone with a fresh copy for each unit.
    """
    start = Generators(model.parameters())
    twin, loss = copied(model, criterion)
    try:
        with read_only(twin), evaluation_mode(twin):
            _warm(value, twin, loss, data)
            before = Memory(twin, loss)
            with unit_seeds() as seed:
                return [_kept(before, twin, loss, _seeded(seed, value, twin, loss, unit)) for unit in units()]
    except _Remembered:
        start.rewind()
    found = []
    with read_only(model), unit_seeds() as seed:  # whose parameters are those of the copies
        for unit in units():
            twin, loss = copied(model, criterion)
            with evaluation_mode(twin):
                found.append(_seeded(seed, value, twin, loss, unit))
    return found


def _seeded(
    seed: Callable[[], None], value: Value, model: nn.Module, criterion: Criterion, unit: list[Row]
) -> list[float]:
    seed()
    return [value(model, criterion, *row) for row in unit]


def _kept(before: Memory, model: nn.Module, criterion: Criterion, found: list[float]) -> list[float]:
    if not before.is_kept(model, criterion):
        raise _Remembered
    return found


def _warm(value: Value, model: nn.Module, criterion: Criterion, data: PrivateData) -> None:
    """Run model and loss on a random row, so that anything they create at their first call exists."""
    with torch.random.fork_rng():
        try:
            examples = random_rows(model, data, None, raw=True)
        except Exception:  # a data set may raise whatever it likes
            return
        value(model, criterion, examples.inputs[:1], examples.targets[:1])
