"""A rule for rows as one for units of several rows: gradients are formed and averaged before they are measured.

The squared norm of a mean has the products of different rows in it, so it cannot be had from the norms of the rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discreet.clipping.rules import base
from discreet.clipping.rules.base import Rule
from discreet.clipping.rules.numbers import squared_norms, wide_type, with_rounding
from discreet.clipping.units import Units


class OfUnits(Rule):
    """What `inner` captured of rows, asked about units: everything along the axis of the examples is by unit.

    It takes what forming per-row gradients takes, in blocks of bounded memory.
    """

    def __init__(self, inner: Rule, units: Units) -> None:
        self._inner, self._units = inner, units
        self.module, self.trained = inner.module, inner.trained

    @property
    def examples(self) -> int:
        return len(self._units)

    def squares(self, name: str) -> Tensor:
        size = max(1, base.BUDGET // (16 * max(1, self.module.get_parameter(name).numel())))
        starts = range(0, self.examples, size)
        squares = torch.cat([squared_norms(self.rows(name, i, min(i + size, self.examples))) for i in starts])
        terms, dtype = self.lengths(name), self.module.get_parameter(name).dtype
        return with_rounding(squares, terms, self._units.counts.to(terms.device), wide_type(dtype))

    def lengths(self, name: str) -> Tensor:
        return self._units.means(self._inner.lengths(name))

    def total(self, name: str, weights: Tensor) -> Tensor:
        return self._inner.total(name, self._units.shared(weights))

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        parameter = self.module.get_parameter(name)
        sums = torch.zeros(stop - start, *parameter.shape, dtype=torch.float64, device=parameter.device)
        first, last = ((0, *self._units.ends)[i] for i in (start, stop))
        step = max(1, base.BUDGET // (16 * max(1, parameter.numel())))
        for begin in range(first, last, step):
            end = min(begin + step, last)
            owners = self._units.owners[begin:end].to(parameter.device) - start
            sums.index_add_(0, owners, self._inner.rows(name, begin, end).double().view(-1, *parameter.shape))
        counts = self._units.counts[start:stop].to(parameter.device)
        return sums / counts.view(-1, *[1] * parameter.dim())

    def forget(self) -> None:
        self._inner.forget()

    def drop(self, unusable: Tensor) -> None:
        self._inner.drop(self._units.spread(unusable))
