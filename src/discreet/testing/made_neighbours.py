"""Neighbouring data sets for tests: rows, and the same rows with one more that is made to do harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet.audit.builds.canaries import Canary, label_canaries
from discreet.audit.builds.canaries import canaries as made_canaries
from discreet.audit.builds.made_up import MadeUp, Maker
from discreet.core.errors import InputError

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Two data sets, of which `having` has one more row, the last one. `name`: what that row is made for."""

    name: str
    without: Rows
    having: Rows

    @property
    def canary(self) -> Rows:
        """The row that only `having` has."""
        return self.having[0][-1:], self.having[1][-1:]


def canaries(inputs: Tensor, targets: Tensor) -> list[Canary]:
    """Rows like these that are made to move a sum further than they may: ordinary ones, twins, long, huge and
    overflowing ones, zeros, wrong targets, and loud ones of each label, 10 labels at most (`audit.builds.canaries`).

    `inputs`, `targets`: a few rows, along axis 0; labels and tokens are whole numbers up to the largest there.
    """
    given = _maker(inputs, targets), MadeUp(inputs, targets), _classes(targets)
    # Both signs, as weights stay: a model that is sure of a label at one row is seldom so at the row's negative.
    return made_canaries(*given) + label_canaries(*given, signs=(1.0, -1.0))


def neighbours(inputs: Tensor, targets: Tensor) -> Iterator[Neighbours]:
    """These rows, and the same with one canary more, for each of `canaries`."""
    for one in canaries(inputs, targets):
        having = torch.cat([inputs, one.inputs]), torch.cat([targets, one.targets])
        yield Neighbours(one.name, (inputs, targets), having)


def _classes(targets: Tensor) -> int | None:
    return None if targets.is_floating_point() else int(targets.max()) + 1


def _maker(inputs: Tensor, targets: Tensor) -> Maker:
    if len(inputs) != len(targets) or not len(inputs):
        raise InputError(f"{len(inputs)} inputs and {len(targets)} targets; give as many of both, one at least")
    tokens = 2 if inputs.is_floating_point() or inputs.is_complex() else int(inputs.max()) + 1
    return Maker((torch.zeros_like(inputs[:1]), torch.zeros_like(targets[:1])), max(2, _classes(targets) or 2), tokens)
