"""Upper and lower bounds on epsilon for a composition of Poisson-sampled Gaussians: plan, discretise, compose, read.

The promise is an interval that holds; its width is a goal. If the first grid misses the goal, finer ones follow
for as long as they help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting.pld.compose import Composition, compose
from discreet.accounting.pld.discretise import LossPmf, loss_range, optimistic, pessimistic
from discreet.accounting.pld.pair import Direction, Pair
from discreet.accounting.pld.query import epsilon_lower, epsilon_upper
from discreet.accounting.pld.window import Window, plan_window

MAX_POINTS = 2**22
"""No transform or discretised loss is longer than this: at most a few hundred megabytes."""

_REFINEMENTS = 5

_SMALLEST_DELTA = 1e-200
"""Below, masses that count would come near the underflow of floating point."""


@dataclass(frozen=True, slots=True)
class Release:
    """`count` Poisson-sampled Gaussian releases with `rate` in (0, 1] and effective noise multiplier `noise`."""

    rate: float
    noise: float
    count: int


@dataclass(frozen=True, slots=True)
class EpsilonInterval:
    """The true epsilon lies in [lower, upper]."""

    lower: float
    upper: float


def default_tolerance(epsilon: float) -> float:
    """The width aimed at: half a percent, or 1e-4 where that is larger."""
    return max(0.005 * epsilon, 1e-4)


def epsilon_interval(
    releases: Sequence[Release], delta: float, tolerance: Callable[[float], float] = default_tolerance
) -> EpsilonInterval:
    """Bound the epsilon of all `releases` together at `delta`, under add/remove or zero-out adjacency.

    `tolerance` maps an epsilon to the interval width aimed at. Both directions are composed apart and the
    larger counts (Zhu, Dong, Wang 2022). Numerical failure gives an infinite upper and a zero lower bound.
    """
    if not delta >= _SMALLEST_DELTA:
        return EpsilonInterval(0.0, math.inf)
    sampled = any(release.rate < 1 for release in releases)
    directions = (Direction.REMOVAL, Direction.ADDITION) if sampled else (Direction.REMOVAL,)
    interval = EpsilonInterval(0.0, 0.0)
    for direction in directions:
        one = _one_direction(releases, direction, delta, tolerance, interval.lower)
        interval = EpsilonInterval(max(interval.lower, one.lower), max(interval.upper, one.upper))
    return interval


def _one_direction(
    releases: Sequence[Release],
    direction: Direction,
    delta: float,
    tolerance: Callable[[float], float],
    enough: float,
) -> EpsilonInterval:
    """The interval of one direction, refined until it is narrow or its upper end is at most `enough`."""
    parts = [(Pair(release.rate, release.noise, direction), release.count) for release in releases]
    count = sum(times for _, times in parts)
    tail = 1e-9 * delta / count
    window = plan_window(parts, delta, tail)
    grid = _affordable(parts, window, tail, window.grid_for(tolerance(window.epsilon) / 4, count))
    window = plan_window(parts, delta, tail, grid)
    best = EpsilonInterval(0.0, math.inf)
    for _ in range(_REFINEMENTS):
        up = _compose(pessimistic, parts, window, grid, tail, up=True)
        down = _compose(optimistic, parts, window, grid, tail, up=False)
        lower, upper = epsilon_lower(down, delta), epsilon_upper(up, delta)
        before = best.upper - best.lower
        best = EpsilonInterval(max(best.lower, lower), min(best.upper, upper))
        finer = _affordable(parts, window, tail, grid / 2)
        stuck = math.isfinite(before) and best.upper - best.lower > 0.9 * before
        if stuck or finer >= grid or best.upper <= max(enough, best.lower + tolerance(best.lower)):
            break
        grid = finer
    return best


def _compose(
    discretise: Callable[[Pair, float, float, float], LossPmf],
    parts: Sequence[tuple[Pair, int]],
    window: Window,
    grid: float,
    tail: float,
    *,
    up: bool,
) -> Composition:
    return compose([(discretise(pair, grid, tail, window.floor), times) for pair, times in parts], window, up=up)


def _affordable(parts: Sequence[tuple[Pair, int]], window: Window, tail: float, grid: float) -> float:
    """`grid`, or the finest grid that keeps every array within `MAX_POINTS`."""
    points = window.points(grid)
    for pair, _ in parts:
        low, high = loss_range(pair, grid, tail, window.floor)
        points = max(points, high - low)
    return grid * max(1.0, points / (0.9 * MAX_POINTS))
