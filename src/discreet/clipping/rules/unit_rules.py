"""Turns a rule for rows into a rule for units of several rows: gradients are averaged, or added up, before they are
measured.

The squared norm of a mean contains products of different rows, so the norms of the rows do not determine it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discreet.clipping.rules import base
from discreet.clipping.rules.base import Rule
from discreet.clipping.rules.numbers import added, blank, norms_of, squared_norms, weighted_sum
from discreet.clipping.units import Units


class OfUnits(Rule):
    """The rule `inner`, which captured rows, with units in the place of examples.

    The mean gradients of units (with `added`, their sums) are formed in float64, in blocks of bounded memory, and norms
    and sum use the same numbers. So where rows of a unit cancel, their rounding is measured too.
    """

    def __init__(self, inner: Rule, units: Units, *, added: bool = False) -> None:
        self._inner, self._units, self._added = inner, units, added
        self.module, self.trained = inner.module, inner.trained
        self._kept: dict[str, Tensor] = {}

    @property
    def examples(self) -> int:
        return len(self._units)

    def squares(self, name: str) -> Tensor:
        blocks = [self.rows(name, i, j) for i, j in self._blocks(name)]
        if 8 * self.examples * self.module.get_parameter(name).numel() <= base.BUDGET:
            self._kept[name] = torch.cat(blocks)
        return torch.cat([squared_norms(block) for block in blocks])

    def forms_again(self, name: str) -> bool:
        return name not in self._kept

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        rows = (self.rows(name, i, j) for i, j in self._blocks(name))
        return torch.cat([norms_of((part / scale).reshape(len(part), -1), 1) for part in rows])

    def total(self, name: str, weights: Tensor) -> Tensor:
        return added(weighted_sum(weights[i:j], self.rows(name, i, j)) for i, j in self._blocks(name))

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        if name in self._kept:
            return self._kept[name][start:stop]
        parameter = self.module.get_parameter(name)
        sums = torch.zeros(stop - start, *parameter.shape, dtype=torch.float64, device=parameter.device)
        first, last = ((0, *self._units.ends)[i] for i in (start, stop))
        step = base.room_for(16 * parameter.numel())
        for begin in range(first, last, step):
            end = min(begin + step, last)
            owners = self._units.owners[begin:end].to(parameter.device) - start
            sums.index_add_(0, owners, self._inner.rows(name, begin, end).double().view(-1, *parameter.shape))
        if self._added:
            return sums
        counts = self._units.counts[start:stop].to(parameter.device)
        return sums / counts.view(-1, *[1] * parameter.dim())

    def forget(self) -> None:
        if len(self._kept) == len(self.trained):
            self._inner.forget()

    def drop(self, unusable: Tensor) -> None:
        self._inner.drop(self._units.spread(unusable))
        self._kept = {name: blank(rows, unusable) for name, rows in self._kept.items()}

    def _blocks(self, name: str) -> list[tuple[int, int]]:
        size = base.room_for(16 * self.module.get_parameter(name).numel())
        return [(i, min(i + size, self.examples)) for i in range(0, self.examples, size)]
