"""The whole profile of a composition, from one transform per direction and grid instead of one per epsilon.

The tilt for delta = 0.1 is gentle: masses are right to about 1e-13 at every loss, which suits trade-off curves. For a
single far epsilon, give a `focus` near its delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.allocation_loss import AllocationLoss
from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.discretise import optimistic, pessimistic
from discreet.accounting.pld.epsilon_interval import MAX_POINTS, OnGrid, Periods, Release, _affordable, _compose
from discreet.accounting.pld.fixed_size_pair import SymmetricPair
from discreet.accounting.pld.poisson_pair import LEAST_NOISE, Direction, Pair
from discreet.accounting.pld.query import least_tests, upper_profile
from discreet.accounting.pld.replacement_interval import Filled, truncated_pairs
from discreet.accounting.pld.window import Window, plan_window
from discreet.core.array_types import Array

FOCUS = 0.1
"""The default delta near which masses are most exact."""

_REFINEMENTS = 5
_TAIL = 1e-14
_KNOTS = 1500
_GAP, _WIDER_GAP = 1e-3, 5e-3


@dataclass(frozen=True, slots=True)
class Profile:
    """Bounds on both directions together, each array of shape (n,).

    `deltas[i]` bounds delta(`epsilons[i]`) from above; epsilons are at least 0 and ascending. Lower bounds: some test
    has a false positive rate of at most `false_positives[j]` and a true positive rate of at least `true_positives[j]`.
    """

    epsilons: Array
    deltas: Array
    false_positives: Array
    true_positives: Array


def whole_profile(
    releases: Sequence[Release],
    focus: float = FOCUS,
    *,
    symmetrised: bool = False,
    bounded: Sequence[BoundedLoss] = (),
    periods: Sequence[Periods] = (),
) -> Profile:
    """Bound the profile of all `releases`, `bounded` and `periods` together, under add/remove or zero-out adjacency.

    Both directions are composed separately (Zhu, Dong, Wang 2022); the larger delta counts, and the tests of both are
    kept. `symmetrised`: for batches of fixed size under replace-one instead (`fixed_size_pair`), without tests. Tests
    look at the others only, since for `bounded` only an upper bound is known.

    Grids are refined until the bounds are within a thousandth of each other where delta is `focus`, or at epsilon 0 if
    delta is smaller everywhere. Numerical failure gives delta 1 and no test.
    """
    if symmetrised:
        whole = _one([(SymmetricPair(r.rate, r.noise, Direction.REMOVAL), r.count) for r in releases], focus, bounded)
        return Profile(whole.epsilons, whole.deltas, np.zeros(0), np.zeros(0))
    sampled = bool(periods) or any(release.rate < 1 for release in releases)
    tail = _TAIL * min(focus / FOCUS, 1.0) / max(1, sum(one.count for one in periods))
    found = [
        _one(
            [(Pair(r.rate, r.noise, direction), r.count) for r in releases],
            focus,
            [*bounded, *(one.loss(direction, tail) for one in periods)],
        )
        for direction in (list(Direction) if sampled else [Direction.REMOVAL])
    ]
    epsilons, deltas = joined([(one.epsilons, one.deltas) for one in found], np.maximum)
    tests = [np.concatenate([getattr(one, name) for one in found]) for name in ("false_positives", "true_positives")]
    return Profile(epsilons, deltas, tests[0], tests[1])


def truncated_profile(
    filled: Sequence[Filled], others: Sequence[Release], focus: float, *, either: bool
) -> tuple[Array, Array]:
    """Epsilons from 0 on, and upper bounds on delta, with batches of bounded size (`truncated_pair`) beside `others`.

    `either`: under zero-out. Each direction composes the pairs whose epsilon `truncated_upper` bounds, on grids that
    are rounded up. Tests of these pairs are left out: whether a data set attains them is not known.
    """
    found = [
        _one(truncated_pairs(filled, others, direction, either=either), focus, (), _WIDER_GAP)
        for direction in Direction
    ]
    return joined([(one.epsilons, one.deltas) for one in found], np.maximum)


def joined(curves: Sequence[tuple[Array, Array]], choose: np.ufunc) -> tuple[Array, Array]:
    """Several curves of (epsilons, deltas) as one at all their knots: the largest or the least of the deltas there."""
    epsilons = np.unique(np.concatenate([own for own, _ in curves]))
    deltas: Array = choose.reduce([chord(own, bounds, epsilons) for own, bounds in curves])
    return epsilons, deltas


def chord(epsilons: Array, deltas: Array, at: Array) -> Array:
    """Upper bounds on delta at the epsilons `at`, from those at the knots `epsilons`, of which the first is 0.

    delta is convex in e^epsilon, so it lies below its chords; beyond the last knot it does not rise.
    """
    right = np.clip(np.searchsorted(epsilons, at), 1, len(epsilons) - 1)
    left = right - 1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        whole = np.expm1(epsilons[right] - epsilons[left])
        share = np.expm1(at - epsilons[left]) / whole
        rest = np.exp(at - epsilons[left]) * np.expm1(epsilons[right] - at) / whole
    # Both shares on their own: 1 - share is rounded to 1e-16, and of a delta that falls by more nothing would be left.
    between = np.clip(rest, 0.0, 1.0) * deltas[left] + np.clip(share, 0.0, 1.0) * deltas[right]
    between = np.where(np.isfinite(whole) & np.isfinite(between), between, deltas[left])  # shares of infinity are zero
    result: Array = np.minimum(between * (1 + 2.0**-40), deltas[left])
    return np.where(at >= epsilons[-1], deltas[-1], result)


def _one(parts: Sequence[tuple[Pair, int]], focus: float, others: Sequence[OnGrid], enough: float = _GAP) -> Profile:
    """The profile of one direction, with its grid refined while that helps."""
    if any(np.min(pair.noise) < LEAST_NOISE for pair, _ in parts):
        return _nothing()
    count = sum(times for _, times in parts) + sum(part.count for part in others)
    tail = _TAIL * min(focus / FOCUS, 1.0) / count
    window = plan_window(parts, focus, tail, bounded=others)
    fineness = 1e-5 * (window.high - window.low)
    grid = window.grid_for(fineness, count)
    if any(isinstance(part, BoundedLoss) for part in others):  # as in `epsilon_interval`: their order may be huge
        grid = max(grid, fineness / count)
    grid = _affordable(parts, window, tail, grid, others)
    best, best_gap = _nothing(), math.inf
    for _ in range(_REFINEMENTS):
        placed = plan_window(parts, focus, tail, grid, others)
        if not placed.points(grid) <= MAX_POINTS:
            break
        epsilons, deltas = upper_profile(_compose(pessimistic, parts, placed, grid, tail, up=True, others=others))
        wrong, right = _tests(parts, placed, grid, tail, others)
        profile, gap = _thinned(epsilons, deltas, wrong, right, focus)
        if not gap < 0.9 * best_gap:
            break
        best, best_gap = profile, gap
        finer = _affordable(parts, placed, tail, grid / 3, others)
        if gap <= enough or finer > grid / 1.5:
            break
        grid = finer
    return best


def _tests(
    parts: Sequence[tuple[Pair, int]], window: Window, grid: float, tail: float, others: Sequence[OnGrid]
) -> tuple[Array, Array]:
    if not parts and not any(isinstance(part, AllocationLoss) for part in others):
        return np.zeros(0), np.zeros(0)
    return least_tests(_compose(optimistic, parts, window, grid, tail, up=False, others=others))


def _thinned(epsilons: Array, deltas: Array, wrong: Array, right: Array, focus: float) -> tuple[Profile, float]:
    """A profile of about 1500 knots and tests, dense where values change, and its relative gap near `focus`."""
    deltas = np.minimum.accumulate(np.fmin(deltas, 1.0))
    kept = _spread([epsilons, deltas, np.log(np.maximum(deltas, 1e-12 * focus))])
    epsilons, deltas = epsilons[kept], deltas[kept]
    usable = np.isfinite(wrong) & (right > wrong)
    wrong, right = wrong[usable], right[usable]
    if len(wrong):
        kept = _spread([wrong, right, np.log(wrong + 1e-12 * focus)])
        wrong, right = wrong[kept], right[kept]
    near = int(np.count_nonzero(deltas >= focus)) or 1
    probe, above = min(float(epsilons[near - 1]), 700.0), float(deltas[near - 1])
    below = float(np.max(right - math.exp(probe) * wrong, initial=0.0))
    return Profile(epsilons, deltas, wrong, right), (above - below) / above


def _spread(coordinates: Sequence[Array]) -> Array:
    """Indices spread evenly along the curve that has these coordinates, both ends included."""
    length = np.zeros(len(coordinates[0]))
    for values in coordinates:
        moves = np.abs(np.diff(values))
        total = float(moves.sum())
        if total > 0:
            length[1:] += np.cumsum(moves) / total
    levels = np.linspace(0, length[-1], _KNOTS)
    return np.unique(np.clip(np.searchsorted(length, levels), 0, len(length) - 1))


def _nothing() -> Profile:
    return Profile(np.array([0.0, 1.0]), np.ones(2), np.zeros(0), np.zeros(0))
