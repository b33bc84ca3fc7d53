"""The privacy loss of a period in which each unit takes part in one of `steps` steps, chosen at random.

Let r_i be the likelihood ratio of step i's release with the unit to that without it, given all earlier releases. The
ratio of a whole period is the mean L = (r_1 + ... + r_t) / t: the unit is in step i with chance 1 / t, and the other
steps do not know it. Both directions of privacy are means, without the unit, of convex
functions of L: E (L - e^eps)+ and E (1 - e^eps L)+. Given the past, r_i = exp(x - m / 2) with x normal of variance
m <= 1 / noise^2, however the query of step i was chosen; in the convex order it is at most the lognormal variable R
with m = 1 / noise^2. Replacing r_t, then r_{t-1}, ... by independent copies of R, each in a convex function of itself,
shows that L is worst where all r_i are independent copies of R (`lognormal_sum`). So this pair of distributions
dominates every period, queries chosen adaptively included, and it is attained: by queries to which the unit alone
contributes, always the same. (The pair: Feldman and Shenfeld 2025, "Privacy amplification by random allocation";
also Chua et al. 2024, "Balls-and-bins sampling for DP-SGD".)

`chosen` of t steps cost at most as much as `chosen` periods of floor(t / chosen) steps: let a random partition of the
steps into that many blocks of that length (and a rest) be public, and draw one step of each block. Then L is a product
of means, one for each block, which is convex in every r_i as well; and a mixture over partitions reveals at most what
partition and releases reveal together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.discretise import LossPmf
from discreet.accounting.pld.lognormal_sum import GridSum, Rule, Side, summed
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction
from discreet.core.array_types import Array

_RANGE = 30.0
_SKETCHED = 8
"""Grid steps in a standard deviation of log L, for planning."""


@dataclass(frozen=True, slots=True)
class AllocationLoss:
    """`count` periods, in each of which a unit is in one of `steps` steps with effective noise multiplier `noise`.

    `tail`: the mass that may be cut off in a period, at either end.
    """

    steps: int
    noise: float
    count: int
    direction: Direction
    tail: float

    def points(self, grid: float) -> float:
        """About the most grid points that the loss takes."""
        return _RANGE / grid

    def pessimistic(self, grid: float) -> LossPmf:
        """A loss on the grid that dominates that of a period."""
        return self._on_grid(grid, Side.ABOVE)

    def optimistic(self, grid: float) -> LossPmf:
        """A loss on the grid that that of a period dominates."""
        return self._on_grid(grid, Side.BELOW)

    def sketch(self) -> tuple[Array, Array]:
        """Losses and log-masses on a coarse grid, for planning."""
        spread = math.sqrt(math.log1p(math.expm1(min(self.noise**-2, 700.0)) / self.steps))
        pmf = self.pessimistic(min(0.1, spread / _SKETCHED))
        with np.errstate(divide="ignore"):
            return pmf.losses, np.log(pmf.masses)

    def _on_grid(self, grid: float, side: Side) -> LossPmf:
        rule = Rule(self.direction, side, self.tail / (4 * self.steps))
        found = summed(self.noise, self.steps, grid, rule)
        reach = 1 + abs(found.first * grid) + len(found.masses) * grid + self.noise**-2 + math.log(self.steps)
        return self._loss(found, 64 * UNIT_ROUNDOFF * reach, 1 if side is Side.ABOVE else -1)

    def _loss(self, found: GridSum, slack: float, sign: int) -> LossPmf:
        """The law of log L with the unit (removal), or that of -log L without it (addition)."""
        factor, log_steps = 1 + sign * 2.0**-45, math.log(self.steps)
        if self.direction is Direction.ADDITION:
            first = -(found.first + len(found.masses) - 1)
            return LossPmf(found.step, first, found.masses[::-1] * factor, found.zero, slack, log_steps)
        masses = found.masses * np.exp(found.logs - log_steps) * factor
        return LossPmf(found.step, found.first, masses, found.infinite / self.steps * factor, slack, -log_steps)
