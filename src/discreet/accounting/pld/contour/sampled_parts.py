"""Releases whose composed loss is inverted, and outcomes that are left out.

Large, rare losses can be left out: an outcome is set aside with probability 1 - g(x), g(x) = Phi((cut - x) / width).
All measures then carry the factor g, and M(0) falls short of 1 by `Parts.aside`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from discreet.accounting.pld.poisson_pair import Direction
from discreet.core.array_types import Array, IndexArray


@dataclass(frozen=True, slots=True)
class Parts:
    """Releases of one direction: rates in (0, 1], effective noise multipliers and counts, each of shape (k, 1).

    `cut` and `width` have that shape too; an infinite cut sets nothing aside. `symmetric`: batches of fixed size under
    replace-one (`fixed_size_pair`), whose direction is removal.
    """

    rate: Array
    noise: Array
    count: Array
    direction: Direction
    cut: Array
    width: Array
    symmetric: bool = False

    @classmethod
    def whole(cls, rate: Array, noise: Array, count: Array, direction: Direction, *, symmetric: bool = False) -> Parts:
        """Releases without any outcome set aside."""
        infinite = np.full_like(noise, np.inf)
        return cls(rate, noise, count, direction, infinite, infinite, symmetric)

    def without(self, mass: float) -> Parts:
        """The same releases with outcomes of largest loss set aside, of about `mass` in all."""
        each = mass / float(self.count.sum())
        width = np.minimum(self.noise / 2, self.noise**2 / 8)
        spread = np.hypot(self.noise, width)
        reach = [-ndtri(np.minimum(share, 0.5)) * spread for share in (each / (2 * self.rate), each / 2 + 0 * spread)]
        return replace(self, cut=np.maximum(1 + reach[0], reach[1]), width=width)

    @property
    def aside(self) -> float:
        """An upper bound on the probability that the outcome of any release is set aside."""
        return float(np.sum(self.count * self.aside_each)) * (1 + 1e-9)

    @property
    def aside_each(self) -> Array:
        """About the probability that the outcome of a release is set aside, shape (k, 1)."""
        spread = np.hypot(self.noise, self.width)
        with np.errstate(invalid="ignore"):
            null = ndtr(-self.cut / spread)
            each = self.rate * ndtr((1 - self.cut) / spread) + (1 - self.rate) * null
        # Under `symmetric` the same outcomes, drawn without the unit, have large negative losses.
        return np.where(np.isfinite(self.cut), each + (null if self.symmetric else 0.0), 0.0)

    def __getitem__(self, rows: IndexArray) -> Parts:
        rate, noise, count = self.rate[rows], self.noise[rows], self.count[rows]
        return Parts(rate, noise, count, self.direction, self.cut[rows], self.width[rows], self.symmetric)

    def __len__(self) -> int:
        return len(self.rate)

    @overload
    def power(self, order: float) -> float: ...

    @overload
    def power(self, order: float | Array) -> float | Array: ...

    def power(self, order: float | Array) -> float | Array:
        """The real part a of the exponent of W."""
        return order + 1 if self.direction is Direction.REMOVAL else -order


def log_kept(parts: Parts, x: Array) -> tuple[Array, Array]:
    """log g at the outcomes `x`, and its rounding error in units of eight roundings."""
    if not np.any(np.isfinite(parts.cut)):
        return np.zeros(1), np.zeros(1)
    z = (x - parts.cut) / parts.width
    moved = (np.abs(x) + np.abs(parts.cut)) / parts.width
    return log_ndtr(-z), np.where(z > -40, 4 + np.maximum(z, 0.0) ** 2 + moved * (1 + np.maximum(z, 0.0)), 0.0)
