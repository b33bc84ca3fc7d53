"""The privacy loss that dominates pure and bounded-range releases, exactly and on a grid.

Each loss dominates every mechanism of its class, in both directions, also when mechanisms are chosen adaptively: a pair
of distributions whose delta(eps) is at least that of each member composes to a pair that dominates all compositions
(Zhu, Dong, Wang 2022, Theorem 10).

- pure: randomised response, losses eps and -eps with P-mass e^eps / (1 + e^eps) and the rest.
- bounded range: for losses t - eps and t (by convexity the worst case) delta(x) =
  (1 - e^(x - t)) (1 - e^(t - eps)) / (1 - e^-eps), and the worst t is (x + eps) / 2: delta(x) =
  (1 - e^((x - eps) / 2))^2 / (1 - e^-eps). That is the profile of the loss with P-density
  e^((x - eps) / 2) / (2 (1 - e^-eps)) on [-eps, eps] (take two derivatives in e^x). Dong, Durfee, Rogers 2020,
  section 3, state the same profile in other words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.accounting.pld.discretise import LossPmf
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.core.array_types import Array

_PLANNING_BINS = 200


@dataclass(frozen=True, slots=True)
class BoundedLoss:
    """`count` releases with pure guarantee `epsilon`; `ranged`: all losses lie in an interval of length `epsilon`."""

    epsilon: float
    ranged: bool
    count: int

    def points(self, grid: float) -> float:
        """The number of grid points that the loss of one release takes."""
        return 2 * self.epsilon / grid + 3

    def pessimistic(self, grid: float) -> LossPmf:
        """The dominating loss on the grid: all mass is split between the two nearest grid points, keeping P and Q."""
        low, high = math.floor(-self.epsilon / grid) - 1, math.ceil(self.epsilon / grid) + 1
        edges = np.arange(low, high + 1) * grid
        masses = np.zeros(len(edges))
        if self.ranged:
            start, end = np.maximum(edges[:-1], -self.epsilon), np.minimum(edges[1:], self.epsilon)
            width = np.maximum(end - start, 0.0)
            mass = np.exp((end - self.epsilon) / 2) * -np.expm1(-width / 2) / -math.expm1(-self.epsilon)
            _deal(masses, np.arange(len(mass)), mass, np.expm1(edges[:-1] - (start + end) / 2), grid)
        else:
            p = 1 / (1 + math.exp(-self.epsilon))
            losses = np.array([self.epsilon, -self.epsilon])
            at = np.searchsorted(edges, losses, side="right") - 1
            _deal(
                masses,
                at,
                np.array([p, 1 / (1 + math.exp(min(self.epsilon, 700.0)))]),
                np.expm1(edges[at] - losses),
                grid,
            )
        masses *= 1 + 64 * UNIT_ROUNDOFF
        return LossPmf(grid, low, masses, 0.0, 64 * UNIT_ROUNDOFF * (1 + self.epsilon + grid))

    def sketch(self) -> tuple[Array, Array]:
        """Losses and log-masses on a coarse grid, for planning."""
        pmf = self.pessimistic(2 * self.epsilon / _PLANNING_BINS)
        with np.errstate(divide="ignore"):
            return pmf.losses, np.log(pmf.masses)


def _deal(masses: Array, at: npt.NDArray[np.intp], mass: Array, drop: Array, grid: float) -> None:
    """Split `mass` in place between grid points `at` and the next ones; `drop` = e^(lower edge) Q/P - 1 of that mass.

    The upper point gets the share (1 - e^a Q/P) / (1 - e^-h), rounded up.
    """
    share = np.clip(drop / math.expm1(-grid) * (1 + 2.0**-40) + 64 * UNIT_ROUNDOFF / grid, 0.0, 1.0)
    np.add.at(masses, at + 1, mass * share)
    np.add.at(masses, at, mass * (1 - share))
