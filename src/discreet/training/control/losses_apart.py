"""Losses of private rows at several parameter values, each computed as by a model that has seen no other row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from discreet.clipping import Criterion
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.losses import each_loss
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import unit_seeds
from discreet.clipping.separation import Memory
from discreet.clipping.separation.copies import OwnWeights, copied
from discreet.clipping.separation.watched import NOT_OF_A_ROW
from discreet.data import PrivateData
from discreet.training.private_metrics.single_rows import warm

Place = dict[str, Tensor]
"""Parameters that replace those of the model."""


class LossesApart:
    """Losses from one copy of model and loss; or, if the copy remembers anything, from a fresh copy for each row.

    A copy has parameters of its own, which are moved to the place: a row that writes to them writes to no others.
    Every copy meets the same random row first: what a model keeps of its first call must not differ if one row changes
    a copy.

    `model` and `criterion` have seen no private row, and see none here.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, data: PrivateData) -> None:
        self._given, self._data = (model, criterion), data
        self._used = self._warmed()
        self._memory: Memory | None = None  # at its first place, whose layout it keeps
        self._changed = False

    def of(self, place: Place, inputs: Tensor, targets: Tensor) -> Tensor:
        """The losses of the rows of a chunk, one row at a time: so what a row does to others, by rounding or by
        failing, is nothing. Engines that run a chunk at once take long rows apart, look at the loss after each row and
        do failed chunks again among copies; a search that ran chunks at once would have to do all of that."""
        start, rows = Generators([inputs, *place.values()]), list(singly(inputs, targets))
        if not self._changed:
            found, weights = [], self._moved(self._used[0], place)
            memory = self._memory = self._memory or Memory(*self._used)
            with unit_seeds() as seed:
                for row in rows:
                    seed()
                    found.append(_losses_or_none(*self._used, *row))
                    if not (memory.is_kept(*self._used) and weights.renewed(self._used[0])):
                        break
                else:
                    return torch.cat(found)
            start.rewind()
            self._changed = True
        found = []
        with unit_seeds() as seed:
            for row in rows:
                seed()  # before the first call of the copy, which may draw as well
                model, criterion = self._warmed()
                self._moved(model, place)
                found.append(_losses_or_none(model, criterion, *row))
        return torch.cat(found)

    def _warmed(self) -> tuple[nn.Module, Criterion]:
        """Copies of model and loss that have met the random row."""
        twin = copied(*self._given, own=True)
        with suppress(Exception):  # a module may raise whatever it likes
            warm(partial(losses_at, place={}), *twin, self._data)
        return twin

    def _moved(self, twin: nn.Module, place: Place) -> OwnWeights:
        """The parameters of a copy, moved to the place, in whose layout they are."""
        named = dict(twin.named_parameters())
        for name, value in place.items():
            named[name].data = value.new_empty_strided(value.size(), value.stride())
        return OwnWeights(twin, dict(self._given[0].named_parameters()) | place)


def singly(inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each row of a chunk, with a batch axis of length 1."""
    return zip(torch.split(inputs, 1), torch.split(targets, 1), strict=True)


def losses_at(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, place: Place) -> Tensor:
    """Losses of the rows when the model is called with all of them."""
    return each_loss(criterion, functional_call(model, place, (inputs,)), targets)


def _losses_or_none(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of a row; infinite if model or loss fails on it, because an error would reveal something of that row.

    It has the type and the device of all others, whatever those of this row are.
    """
    try:
        around = Surroundings()
        found = losses_at(model, criterion, inputs.clone(), targets.clone(), {})
        around.check()
        return torch.empty(1, dtype=torch.float64, device=inputs.device).copy_(found)
    except NOT_OF_A_ROW:
        raise
    except BaseException:  # a module may raise whatever it likes
        return torch.full((1,), math.inf, dtype=torch.float64, device=inputs.device)
