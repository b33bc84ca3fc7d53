"""Plans the tilt, window and grid of a composition from a cheap estimate of its cumulants.

The bounds hold whatever is planned here: any tilt, window and grid give valid bounds, whose errors `compose` then
measures. A poor choice only makes the bounds wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from discreet.accounting.golden_section import minimise
from discreet.accounting.pld.allocation_loss import AllocationLoss
from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.poisson_pair import Pair
from discreet.core.array_types import Array, IndexArray

_NEGLIGIBLE = 1e-11
_MAX_ORDER = 1e9
_PRECISION = 0.01
_ALIKE_NOISE, _ALIKE_RATE = 0.02, 0.05
"""Parts within these relative distances are planned as one: a window does not show smaller differences."""

_FEW = 48


@dataclass(frozen=True, slots=True)
class Window:
    """The losses from `low` to `high` of the sum tilted by `order`, with the Chernoff orders of both tails."""

    order: float
    low: float
    high: float
    above_order: float
    below_order: float
    epsilon: float
    floor: float
    """Losses of one release below this have almost no tilted mass; discretisations may end here."""

    def indices(self, grid: float, offset: float) -> tuple[int, int]:
        """First index and length of a transform that covers the window with the points i x grid + offset."""
        first = math.floor((self.low - offset) / grid)
        needed = math.ceil((self.high - offset) / grid) - first + 2
        return first, int(fft.next_fast_len(needed, real=True))

    def points(self, grid: float) -> float:
        """The number of grid points in the window."""
        return (self.high - self.low) / grid + 2

    def grid_for(self, tolerance: float, count: int) -> float:
        """The grid at which `count` discretised releases raise epsilon by about `tolerance`.

        Splitting adds at most h^2/4, on average h^2/6, to the variance of each loss, and so about
        (order + 1) count h^2 / 12 to epsilon.
        """
        return min(math.sqrt(12 * tolerance / ((self.order + 1) * count)), 0.25, (self.high - self.low) / 64)


class Cumulants:
    """Estimates of K(theta) = sum of counts x log E_P[exp(theta loss)] by a rule of a few hundred points."""

    def __init__(
        self,
        parts: Sequence[tuple[Pair, int]],
        tail: float,
        grid: float,
        bounded: Sequence[BoundedLoss | AllocationLoss],
    ) -> None:
        parts = _representatives(parts)
        grids = [_split(*pair.quadrature(tail), grid) for pair, _ in parts]
        grids += [_split(*part.sketch(), grid) for part in bounded]
        width = max(len(loss) for loss, _ in grids)
        self._loss = np.zeros((len(grids), width))
        self._log_mass = np.full((len(grids), width), -np.inf)
        for row, (loss, log_mass) in enumerate(grids):
            self._loss[row, : len(loss)] = loss
            self._log_mass[row, : len(loss)] = log_mass
        counts = [count for _, count in parts] + [part.count for part in bounded]
        self._count = np.array(counts, dtype=np.float64)

    def each(self, theta: float) -> Array:
        """log E_P[exp(theta loss)] of one release of each part."""
        exponent = self._log_mass + theta * self._loss
        peak = exponent.max(axis=1, keepdims=True)
        result: Array = peak[:, 0] + np.log(np.exp(exponent - peak).sum(axis=1))
        return result

    def __call__(self, theta: float) -> float:
        return float(self._count @ self.each(theta))

    def floor(self, order: float) -> float:
        """A loss below which the tilted mass of a release is negligible, even summed over all releases."""
        return float(np.min(self.each(order) - np.log(self._count)) + math.log(_NEGLIGIBLE**1.5)) / order


def plan_window(
    parts: Sequence[tuple[Pair, int]],
    delta: float,
    tail: float,
    grid: float = 0.0,
    bounded: Sequence[BoundedLoss | AllocationLoss] = (),
) -> Window:
    """Choose the tilt that suits `delta`, and a window outside which the tilted mass is negligible.

    With a `grid`, the plan is for losses as `pessimistic` spreads them on that grid: the spreading of losses smaller
    than the grid widens their sum.
    """
    cumulant = Cumulants(parts, tail, grid, bounded)
    log_inverse = -math.log(delta)

    def epsilon_at(order: float) -> float:
        # Solves delta = e^(K - order eps) (order / (order + 1))^order / (order + 1): Canonne, Kamath, Steinke 2020.
        return (cumulant(order) + log_inverse - math.log1p(order) - order * math.log1p(1 / order)) / order

    order, epsilon = minimise(epsilon_at, 1e-3, _MAX_ORDER, _PRECISION)
    at = cumulant(order)
    log_tail = -math.log(_NEGLIGIBLE)
    above, high = minimise(lambda t: (cumulant(order + t) - at + log_tail) / t, 1e-4, _MAX_ORDER, _PRECISION)
    below, low = minimise(lambda t: (cumulant(order - t) - at + log_tail) / t, 1e-4, _MAX_ORDER, _PRECISION)
    # The epsilon to be found must lie inside the window, else delta would be read at its edge.
    high = max(high, epsilon, 0.0)
    return Window(order, min(-low, epsilon, high), high, above, below, max(epsilon, 0.0), cumulant.floor(order))


def alike(rates: Array, noises: Array, scale: float = 1.0) -> list[IndexArray]:
    """Indices of parts, grouped by rates and noises (each of shape (k,)) that differ by a few percent x `scale`.

    Schedules have many parts and few groups. Parts drawn at random have as many groups as parts; each part then counts
    in the plan, since a part far from all others may outweigh them.
    """
    widths = scale * _ALIKE_NOISE, scale * _ALIKE_RATE
    cells = np.stack([np.floor(np.log(noises) / widths[0]), np.floor(np.log(rates) / widths[1])])
    order = np.lexsort((noises, cells[0], cells[1]))
    changes = np.flatnonzero(np.any(np.diff(cells[:, order], axis=1) != 0, axis=0)) + 1
    return np.split(order, changes)


def _representatives(parts: Sequence[tuple[Pair, int]]) -> Sequence[tuple[Pair, int]]:
    """One part for each group of similar parts, standing for all of them."""
    if len(parts) <= _FEW:
        return parts
    groups = alike(np.array([pair.rate for pair, _ in parts]), np.array([pair.noise for pair, _ in parts]))
    return [(parts[group[len(group) // 2]][0], sum(parts[i][1] for i in group)) for group in groups]


def _split(loss: Array, log_mass: Array, grid: float) -> tuple[Array, Array]:
    """The losses and log-masses with every loss split between its two neighbours on the grid."""
    if not grid > 0:
        return loss, log_mass
    below = np.floor(loss / grid) * grid
    share = np.clip(np.expm1(below - loss) / math.expm1(-grid), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        log_shares = np.log1p(-share), np.log(share)
    return np.concatenate((below, below + grid)), np.concatenate([log_mass + log_share for log_share in log_shares])
