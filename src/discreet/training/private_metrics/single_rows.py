"""Predictions of private rows, one row at a time, so that each depends on no other row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import seeded_alike, unit_seeds
from discreet.clipping.separation import Memory
from discreet.clipping.separation.copies import OwnWeights, copied
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
    twin, _ = copied(model, nn.CrossEntropyLoss(), own=True)  # what a row writes, or it remembers, does not stay
    around = Surroundings()
    with evaluation_mode(twin):
        for inputs, target in one_by_one(twin, data, rows):
            with torch.no_grad():
                output = twin(inputs)
            around.restore()
            yield output, target


def one_by_one(
    model: nn.Module, data: PrivateData, rows: IntArray, each: Callable[[], None] = lambda: None
) -> Iterator[Row]:
    """(inputs, target) of each row in turn, with a batch axis of length 1, on the model's device. `each`: as in
    `PrivateData.fetch`."""
    device = next(model.parameters()).device
    for start in range(0, len(rows), _AT_ONCE):
        inputs, targets = data.fetch(rows[start : start + _AT_ONCE], each=each)
        for i in range(len(targets)):
            yield inputs[i : i + 1].clone().to(device), targets[i : i + 1].to(device)


def values_of_rows(
    value: Value, model: nn.Module, criterion: Criterion, data: PrivateData, rows: IntArray
) -> list[float]:
    """The value of each row, which depends on that row alone."""

    def units(seed: Callable[[], None]) -> Iterator[list[Row]]:
        return ([row] for row in one_by_one(model, data, rows, seed))

    return [found[0] for found in _values(value, model, criterion, data, units)]


def values_of_units(
    value: Value, model: nn.Module, criterion: Criterion, data: PrivateData, units: IntArray
) -> list[list[float]]:
    """The values of the rows of each unit, which depend on that unit alone."""
    groups = data.groups
    assert groups is not None

    def rows(seed: Callable[[], None]) -> Iterator[list[Row]]:
        for unit in units:
            places = np.arange(groups.counts(np.array([unit]))[0])
            yield list(one_by_one(model, data, groups.rows(int(unit), places), seed))

    return _values(value, model, criterion, data, rows)


def _values(
    value: Value,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    units: Callable[[Callable[[], None]], Iterable[list[Row]]],
) -> list[list[float]]:
    """Values from copies of `model` and `criterion`, which themselves see no private row.

    One copy is enough if no unit changes it; otherwise all is redone with a fresh copy for each unit. A copy has
    parameters of its own: a unit that writes to them writes to no others, and ends nothing. Every copy meets the same
    random row first: what a model keeps of its first call must not differ if one unit changes a copy.
    `units`: the rows of each unit; it is given what is to be called before each row that code makes.
    """
    start, found, around = Generators(model.parameters()), list[list[float]](), Surroundings()
    values = dict(model.named_parameters())
    twin, loss = copied(model, criterion, own=True)
    try:
        with evaluation_mode(twin):
            warm(value, twin, loss, data)
            before, weights = Memory(twin, loss), OwnWeights(twin, values)
            with unit_seeds() as seed:
                for unit in units(seed):
                    seed()
                    found.append([value(twin, loss, *row) for row in unit])
                    around.restore()
                    if not (before.is_kept(twin, loss) and weights.renewed(twin)):
                        raise _Remembered
        return found
    except _Remembered:
        start.rewind()
    found = []
    with read_only(model), unit_seeds() as seed:
        for unit in units(seed):
            seed()  # before the first call of the copy, which may draw as well
            twin, loss = copied(model, criterion, own=True)
            with evaluation_mode(twin):
                warm(value, twin, loss, data)
                OwnWeights(twin, values)  # which the random row may have written to
                found.append([value(twin, loss, *row) for row in unit])
            around.restore()
    return found


def warm(
    run: Callable[[nn.Module, Criterion, Tensor, Tensor], object],
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
) -> None:
    """Run model and loss on a random row, always the same, so that anything they create at their first call exists."""
    with seeded_alike():
        try:
            examples = random_rows(model, data, None, raw=True)
        except Exception:  # a data set may raise whatever it likes
            return
        run(model, criterion, examples.inputs[:1], examples.targets[:1])
