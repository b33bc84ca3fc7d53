"""Trade-off functions as lines: how many guesses may be right, for so many that may be wrong.

A mechanism with trade-off function f (both ways: canary in or out) lets no event have a probability above F(x) in one
world if it has at most x in the other, F(x) = 1 - f(x). F is concave; here it is the least of finitely many lines
c + g x, each of which is a proved upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from discreet.accounting.answers.tradeoff import GaussianTradeOff, TradeOff, lower_hull
from discreet.core.array_types import Array

_UP = 1 + 2.0**-48
_STEEPEST = 650.0
"""Lines whose slope has a larger logarithm, on either side, are left out: fewer lines bound less, never too much."""

_TANGENTS = 1200


@dataclass(frozen=True, eq=False)
class Lines:
    """F(x) <= min(`constants` + `growths` x), ascending in growth; both of shape (n,). An F of no lines is 1."""

    growths: Array
    constants: Array

    @classmethod
    def of(cls, curve: TradeOff) -> Lines:
        """The lines of a curve of the accountant; tangents, for a Gaussian one."""
        if isinstance(curve, GaussianTradeOff):
            return cls.gaussian(curve.mu)
        slopes, constants = curve.lines
        return _hull(slopes, constants)

    @classmethod
    def gaussian(cls, mu: float) -> Lines:
        """Tangents of F(x) = Phi(Phi^-1(x) + mu), each of which is the least somewhere: at x = Phi(t), the slope is
        e^(-mu t - mu^2 / 2)."""
        if not 0 <= mu < 40:
            return cls(np.zeros(0), np.zeros(0))
        points = np.linspace(9.5, -9.5 - mu, _TANGENTS)
        slopes = -mu * points - mu * mu / 2
        kept = np.abs(slopes) < _STEEPEST
        growths = np.exp(slopes[kept]) * _UP
        high, low = ndtr(points[kept] + mu), growths * ndtr(points[kept])
        return cls(growths, high - low + (high + low) * 2.0**-46)

    def most_right(self, shares: Array) -> Array:
        """R(v), rounded up: the largest probability of a right guess about a fair coin, if it is guessed with
        probability v; shape as `shares`.

        Right and wrong guesses of a coin have r <= F(w), r + w = v, so r is at most (c + g v) / (1 + g) for every line.
        R is concave, and R(v) / v falls.
        """
        v = np.asarray(shares, dtype=np.float64)
        if not len(self.growths):
            return np.minimum(v, 1.0)
        slopes, starts, ends = self._right
        line = np.searchsorted(ends, v)
        found: Array = np.minimum((starts[line] + slopes[line] * v) * _UP, v)
        return found

    @cached_property
    def _right(self) -> tuple[Array, Array, Array]:
        """The lines whose least is R: slopes, values at 0, and where the next line is the lesser; steep ones first.
        Any of them is a bound, so rounding of the ends does no harm."""
        rises, values = self.growths / (1 + self.growths) * _UP, self.constants / (1 + self.growths) * _UP
        if np.isnan(values).any() or np.isnan(rises).any():
            return np.ones(1), np.zeros(1), np.zeros(0)
        slopes, starts = lower_hull(rises, values)
        apart = np.append(True, np.diff(slopes) > 0)
        slopes, starts = slopes[apart][::-1], starts[apart][::-1]
        return slopes, starts, np.diff(starts) / -np.diff(slopes)


def _hull(slopes: Array, constants: Array) -> Lines:
    """The lines e^`slopes` x + `constants` that are the least somewhere."""
    usable = (np.abs(slopes) < _STEEPEST) & np.isfinite(constants)
    if not usable.any():
        return Lines(np.zeros(0), np.zeros(0))
    growths, kept = lower_hull(np.exp(slopes[usable]) * _UP, constants[usable])
    return Lines(np.ascontiguousarray(growths), np.ascontiguousarray(kept))
