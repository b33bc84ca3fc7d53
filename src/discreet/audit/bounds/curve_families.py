"""Families of trade-off functions, from the most private on: which of them the guesses of a run refute.

A bound refutes curves. To say it as an epsilon needs a family that the truth is taken to be in; the lower bound is the
epsilon of the largest curve that is refuted. All smaller ones are refuted with it, because every bound rises with the
curve; so the epsilon of the true one is exceeded with the stated probability at most.

| family        | the truth is taken to be                                                       |
|---------------|--------------------------------------------------------------------------------|
| `Gaussians`   | mu-Gaussian private: full batches, or many steps                               |
| `PlanFamily`  | the plan's own curve with its noise scaled: less noise, or more, than it says  |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from discreet.accounting.answers.tradeoff import TradeOff
from discreet.accounting.bisection import bisect
from discreet.accounting.theories import gdp
from discreet.audit.bounds.curve_lines import Lines
from discreet.core.errors import DiscreetError

_DOWN = 1 - 2.0**-40


class Family(Protocol):
    """Curves by their size, a number above 0; larger ones are less private."""

    @property
    def most(self) -> float:
        """The largest size."""

    def lines(self, size: float) -> Lines:
        """Upper bounds on the curve of this size. No lines, if they cannot be computed."""

    def epsilon(self, size: float, delta: float) -> float:
        """The epsilon at `delta` that the curve of this size has, rounded down."""


@dataclass(frozen=True, slots=True)
class Gaussians:
    """G_mu: the size is mu."""

    most: float = 30.0

    def lines(self, size: float) -> Lines:
        return _gaussian(size)

    def epsilon(self, size: float, delta: float) -> float:
        return gdp.epsilon_bounds(size, delta)[0]


@lru_cache(maxsize=512)
def _gaussian(mu: float) -> Lines:
    return Lines.gaussian(mu)


@dataclass(frozen=True, slots=True, eq=False)
class PlanFamily:
    """Curves of plans that differ in their noise alone: the plan of size s has the plan's noise divided by s.

    `curve_of`: the curve that the plan of a size claims. Each is computed once. A curve is kept to its claim, so a
    refuted one refutes a claim of its epsilon.
    """

    curve_of: Callable[[float], TradeOff]
    most: float = 1e3
    _known: dict[float, tuple[TradeOff | None, Lines]] = field(default_factory=dict)

    def lines(self, size: float) -> Lines:
        return self._at(size)[1]

    def epsilon(self, size: float, delta: float) -> float:
        curve = self._at(size)[0]
        return 0.0 if curve is None else curve.epsilon(delta) * _DOWN

    def _at(self, size: float) -> tuple[TradeOff | None, Lines]:
        if size not in self._known:
            try:
                curve = self.curve_of(size)
                self._known[size] = curve, Lines.of(curve)
            except (DiscreetError, ArithmeticError, ValueError):
                self._known[size] = None, Lines(np.zeros(0), np.zeros(0))  # nothing refutes it
        return self._known[size]


def largest_refuted(
    family: Family, refutes: Callable[[Lines], bool], *, start: float, precision: float = 1e-4
) -> float:
    """The size of the largest curve that is refuted, rounded down to a share of `precision`; 0 if none is.

    `start`: a size to begin at. The same sizes are tried in every search that begins there, so that curves are known.
    """
    low, high = 0.0, start
    while refutes(family.lines(high)):
        low, high = high, 2 * high
        if high > family.most:
            return low
    if low == 0:
        low = high
        while not refutes(family.lines(low)):
            low, high = low / 2, low
            if low < start * 1e-6:
                return 0.0
    return bisect(lambda size: not refutes(family.lines(size)), low, high, relative=precision, geometric=True)[0]
