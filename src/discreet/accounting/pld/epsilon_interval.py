"""Upper and lower bounds on epsilon for a composition of Poisson-sampled Gaussians, in one of three ways.

A single release has a closed form (`closed_form`). Otherwise the characteristic function (`inversion`) is used if it
reaches the desired width, else a grid of losses: plan, discretise, compose, read. The interval always holds; its width
is only a goal. If the first grid misses the goal, finer ones follow as long as they help. The grid takes any pair with
a loss and bins; the other two ways need the Poisson-sampled Gaussian.

On the grid, periods of random allocation may join (`allocation_loss`), and releases with only a pure or bounded-range
guarantee (`bounded`). The latter count in the upper bound and are left out of the lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf

from discreet.accounting.pld import closed_form
from discreet.accounting.pld.allocation_loss import AllocationLoss
from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.compose import Composition, compose
from discreet.accounting.pld.contour import inversion
from discreet.accounting.pld.contour.sampled_parts import Parts
from discreet.accounting.pld.discretise import LossPmf, loss_range, optimistic, pessimistic
from discreet.accounting.pld.poisson_pair import LEAST_NOISE, Direction, Pair
from discreet.accounting.pld.query import epsilon_lower, epsilon_upper
from discreet.accounting.pld.window import Window, plan_window
from discreet.core.array_types import Array

MAX_POINTS = 2**22
"""The longest transform or discretised loss: at most a few hundred megabytes."""

_BATCH_POINTS = 2**18
"""The most points of releases computed together, so that their arrays stay in the cache."""

_REFINEMENTS = 5

_LIGHT_POINTS = 2**20

_TAILS = 1e-4
"""The share of delta that cutting off the tails of all losses may cost."""

OnGrid = BoundedLoss | AllocationLoss
"""Parts that put their losses on a grid themselves."""

SMALLEST_DELTA = 1e-200
"""Below this delta, masses that matter would come near the underflow of floating point."""


@dataclass(frozen=True, slots=True)
class Release:
    """`count` Poisson-sampled Gaussian releases with `rate` in (0, 1] and effective noise multiplier `noise`."""

    rate: float
    noise: float
    count: int


@dataclass(frozen=True, slots=True)
class Periods:
    """`count` periods, in each of which a unit is in one of `steps` steps, with effective noise multiplier `noise`."""

    steps: int
    noise: float
    count: int

    def loss(self, direction: Direction, tail: float) -> AllocationLoss:
        """The privacy loss in one direction, of which mass up to `tail` may be cut off in a period, at either end."""
        return AllocationLoss(self.steps, self.noise, self.count, direction, tail)


@dataclass(frozen=True, slots=True)
class EpsilonInterval:
    """The true epsilon lies in [lower, upper]."""

    lower: float
    upper: float


def default_tolerance(epsilon: float) -> float:
    """The desired width of an interval: half a percent of epsilon, but at least 1e-4."""
    return max(0.005 * epsilon, 1e-4)


def epsilon_interval(
    releases: Sequence[Release],
    delta: float,
    tolerance: Callable[[float], float] = default_tolerance,
    bounded: Sequence[BoundedLoss] = (),
    periods: Sequence[Periods] = (),
) -> EpsilonInterval:
    """Bound the epsilon of all `releases`, `bounded` and `periods` together at `delta`, under add/remove or zero-out.

    `tolerance` maps an epsilon to the desired interval width. Both directions are composed separately and the
    larger epsilon counts (Zhu, Dong, Wang 2022). Numerical failure gives an infinite upper and a zero lower bound.
    """
    if not delta >= SMALLEST_DELTA:
        return EpsilonInterval(0.0, math.inf)
    if not bounded and not periods and _total_variation(releases) <= delta:
        return EpsilonInterval(0.0, 0.0)
    sampled = bool(periods) or any(release.rate < 1 for release in releases)
    directions = (Direction.REMOVAL, Direction.ADDITION) if sampled else (Direction.REMOVAL,)
    if not bounded and not periods and sum(release.count for release in releases) == 1:
        alone = [_by_closed_form(releases, direction, delta) for direction in directions]
        if all(one.upper < math.inf for one in alone):
            return EpsilonInterval(max(one.lower for one in alone), max(one.upper for one in alone))
    if bounded or periods:
        quick = [EpsilonInterval(0.0, math.inf)] * len(directions)
    else:
        quick = [_by_contour(releases, directions[0], delta, tolerance)]
        quick += [_by_contour(releases, other, delta, tolerance, quick[0].lower) for other in directions[1:]]
    interval = EpsilonInterval(max(one.lower for one in quick), 0.0)
    for direction, one in zip(directions, quick, strict=True):
        if one.upper > max(interval.upper, one.lower + tolerance(one.lower)) and one.upper > interval.lower:
            enough = max(interval.lower, interval.upper)
            one = _both(one, _by_grid(releases, direction, delta, tolerance, enough, bounded, periods))
        interval = EpsilonInterval(max(interval.lower, one.lower), max(interval.upper, one.upper))
    return interval


def _total_variation(releases: Sequence[Release]) -> float:
    """An upper bound on delta at epsilon 0: total variation distances add up, and sampling scales them by the rate."""
    noises = np.array([release.noise for release in releases])
    shares = np.array([release.rate * release.count for release in releases])
    return float(shares @ erf(1 / (math.sqrt(8) * noises))) * (1 + 2.0**-40)


def _both(one: EpsilonInterval, other: EpsilonInterval) -> EpsilonInterval:
    return EpsilonInterval(max(one.lower, other.lower), min(one.upper, other.upper))


def _by_closed_form(releases: Sequence[Release], direction: Direction, delta: float) -> EpsilonInterval:
    """The interval of one direction of a single release."""
    [release] = [release for release in releases if release.count]
    return EpsilonInterval(*closed_form.epsilon_bounds(Pair(release.rate, release.noise, direction), delta))


def _by_contour(
    releases: Sequence[Release],
    direction: Direction,
    delta: float,
    tolerance: Callable[[float], float],
    enough: float = 0.0,
    *,
    symmetric: bool = False,
) -> EpsilonInterval:
    """The interval of one direction by the characteristic function; (0, infinity) if that does not work.

    An upper end of at most `enough` will do.
    """
    columns = np.array([[part.rate, part.noise, float(part.count)] for part in releases])
    parts = Parts.whole(columns[:, :1], columns[:, 1:2], columns[:, 2:], direction, symmetric=symmetric)
    return EpsilonInterval(*inversion.epsilon_bounds(parts, delta, tolerance, enough))


def _by_grid(
    releases: Sequence[Release],
    direction: Direction,
    delta: float,
    tolerance: Callable[[float], float],
    enough: float = 0.0,
    bounded: Sequence[BoundedLoss] = (),
    periods: Sequence[Periods] = (),
) -> EpsilonInterval:
    """The interval of one direction by a grid of losses, refined until it is narrow or its upper end below `enough`."""
    parts = [(Pair(release.rate, release.noise, direction), release.count) for release in releases]
    total = sum(one.count for one in releases) + sum(one.count for one in periods) + sum(one.count for one in bounded)
    allocated = [one.loss(direction, _TAILS * delta / total) for one in periods]
    return _interval(parts, delta, tolerance, enough, [*bounded, *allocated])


def _interval(
    parts: Sequence[tuple[Pair, int]],
    delta: float,
    tolerance: Callable[[float], float],
    enough: float,
    others: Sequence[OnGrid] = (),
) -> EpsilonInterval:
    if any(np.min(pair.noise) < LEAST_NOISE for pair, _ in parts):
        return EpsilonInterval(0.0, math.inf)
    count = sum(times for _, times in parts) + sum(part.count for part in others)
    tail = _TAILS * delta / count
    window = plan_window(parts, delta, tail, bounded=others)
    grid = window.grid_for(tolerance(window.epsilon) / 4, count)
    if any(
        isinstance(part, BoundedLoss) for part in others
    ):  # their order may be huge, but a grid raises epsilon by at most its step for each release
        grid = max(grid, tolerance(window.epsilon) / (4 * count))
    grid = _affordable(parts, window, tail, grid, others)
    window = plan_window(parts, delta, tail, grid, others)
    best = EpsilonInterval(0.0, math.inf)
    if not window.points(grid) <= MAX_POINTS:  # such a coarse grid spreads so many losses too widely
        return best
    for tried in range(_REFINEMENTS):
        up = _compose(pessimistic, parts, window, grid, tail, up=True, others=others)
        upper = epsilon_upper(up, delta)
        if upper <= enough:
            return EpsilonInterval(0.0, upper)
        lower = 0.0
        if parts or any(isinstance(part, AllocationLoss) for part in others):
            lower = epsilon_lower(_compose(optimistic, parts, window, grid, tail, up=False, others=others), delta)
        before = best.upper - best.lower
        best = _both(best, EpsilonInterval(lower, upper))
        useless = not best.upper <= 1.1 * best.lower
        finer = _affordable(parts, window, tail, grid / (4 if useless else 2), others)
        # Finer grids may yet give a useful bound where there is none: they are tried while they are cheap.
        costly = tried > 0 and (len(parts) + len(others)) * window.points(finer) > _LIGHT_POINTS
        stuck = costly if useless else best.upper - best.lower > 0.9 * before
        if stuck or finer >= grid or best.upper <= best.lower + tolerance(best.lower):
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
    others: Sequence[OnGrid],
) -> Composition:
    losses = [(discretise(pair, grid, tail, window.floor), n) for pair, n in _batches(parts, grid, tail, window)]
    for part in others:
        if up:
            losses.append((part.pessimistic(grid), part.count))
        elif isinstance(part, AllocationLoss):  # of the others nothing is known from below
            losses.append((part.optimistic(grid), part.count))
    return compose(losses, window, up=up)


def _batches(
    parts: Sequence[tuple[Pair, int]], grid: float, tail: float, window: Window
) -> list[tuple[Pair, int | Array]]:
    """The parts, with those of similar loss range gathered into arrays: many small parts cost little more than one."""
    if len(parts) <= 1:
        return list(parts)
    lows, highs = loss_range(_gathered(parts)[0], grid, tail, window.floor)
    sizes = highs - lows
    batches: list[list[int]] = [[]]
    for i in np.argsort(sizes, kind="stable"):
        size, batch = sizes[i], batches[-1]
        smallest = sizes[batch[0]] if batch else size
        if batch and (size > 2 * smallest or (len(batch) + 1) * size > _BATCH_POINTS):
            batches.append([])
        batches[-1].append(i)
    return [_gathered([parts[i] for i in batch]) for batch in batches]


def _gathered(parts: Sequence[tuple[Pair, int]]) -> tuple[Pair, Array]:
    names = parts[0][0].NUMBERS
    columns: dict[str, Any] = {
        name: np.array([[getattr(pair, name)] for pair, _ in parts], dtype=np.float64) for name in names
    }
    return replace(parts[0][0], **columns), np.array([times for _, times in parts], dtype=np.float64)


def _affordable(
    parts: Sequence[tuple[Pair, int]], window: Window, tail: float, grid: float, others: Sequence[OnGrid]
) -> float:
    """`grid`, or the finest grid that keeps every array within `MAX_POINTS`."""
    points = max([window.points(grid), *(part.points(grid) for part in others)])
    if parts:
        lows, highs = loss_range(_gathered(parts)[0], grid, tail, window.floor)
        points = max(points, float(np.max(highs - lows)))
    return grid * max(1.0, points / (0.9 * MAX_POINTS))
