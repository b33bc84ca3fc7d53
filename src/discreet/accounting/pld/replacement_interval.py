"""Bounds on epsilon where a unit may replace another: on batches of fixed size, and on truncated Poisson batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.epsilon_interval import (
    SMALLEST_DELTA,
    EpsilonInterval,
    Release,
    _both,
    _by_contour,
    _interval,
    default_tolerance,
    epsilon_interval,
)
from discreet.accounting.pld.fixed_size_pair import SymmetricPair
from discreet.accounting.pld.poisson_pair import Direction, Pair
from discreet.accounting.pld.truncated_pair import TruncatedPair

_SYMMETRIC_PARTS, _MANY_STEPS = 64, 10_000
"""Under replace-one the grid is as fast if there are few steps, and does many distinct parts together."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Releases on batches of bounded size that others fill with a chance of at most `share`: then a unit replaces one.

    `replaced`: the effective noise multiplier of a replacement.
    """

    release: Release
    replaced: float
    share: float


def symmetrised_interval(
    releases: Sequence[Release],
    delta: float,
    tolerance: Callable[[float], float] = default_tolerance,
    bounded: Sequence[BoundedLoss] = (),
) -> EpsilonInterval:
    """`epsilon_interval` for batches of fixed size under replace-one (`fixed_size_pair`), `rate` = batch / population.

    Lower bound: all other units contribute the opposite of the unit's contribution, and a unit like them replaces it.
    Then every step is the removal pair, or the addition pair seen from the other side, so both one-sided bounds are
    attained. Between them and the symmetrised bound nothing is known, so the interval is wide at any precision; the
    symmetrised bound is computed to a quarter of `tolerance`.
    """
    if not delta >= SMALLEST_DELTA:
        return EpsilonInterval(0.0, math.inf)

    def closely(epsilon: float) -> float:
        return 0.25 * tolerance(epsilon)

    known = EpsilonInterval(0.0, math.inf)
    many = sum(release.count for release in releases) >= _MANY_STEPS
    if many and not bounded and len(releases) <= _SYMMETRIC_PARTS:
        known = _by_contour(releases, Direction.REMOVAL, delta, closely, symmetric=True)
    if not known.upper <= known.lower + closely(known.lower):
        parts: list[tuple[Pair, int]] = [
            (SymmetricPair(release.rate, release.noise, Direction.REMOVAL), release.count) for release in releases
        ]
        known = _both(known, _interval(parts, delta, closely, 0.0, bounded))
    return EpsilonInterval(min(known.upper, epsilon_interval(releases, delta, tolerance).lower), known.upper)


def truncated_upper(
    filled: Sequence[Filled],
    others: Sequence[Release],
    delta: float,
    tolerance: Callable[[float], float],
    *,
    either: bool,
) -> float:
    """An upper bound on epsilon with batches of bounded size (`truncated_pair`), composed with `others`.

    `either`: under zero-out. Infinite if numbers fail.
    """
    if not delta >= SMALLEST_DELTA:
        return math.inf
    upper = 0.0
    for direction in Direction:
        parts = truncated_pairs(filled, others, direction, either=either)
        upper = max(upper, _interval(parts, delta, tolerance, upper).upper)
    return upper


def truncated_pairs(
    filled: Sequence[Filled], others: Sequence[Release], direction: Direction, *, either: bool
) -> list[tuple[Pair, int]]:
    """The pairs whose composition dominates all releases, with how often each occurs."""
    return [
        (TruncatedPair(one.release.rate, one.release.noise, direction, one.replaced, one.share, either), times)
        for one, times in [
            *((one, one.release.count) for one in filled),
            *((Filled(other, other.noise, 0.0), other.count) for other in others),
        ]
    ]
