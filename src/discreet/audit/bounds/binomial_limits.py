"""Binomial tails, rounded up, and the limits of a share (Clopper and Pearson 1934), rounded outward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincinv

from discreet.core.array_types import Array, IntArray

_ROUNDING = 1e-9
"""Every tail is raised by this share of itself. SciPy's beta function is right to about 1e-12 of its value; a test
compares it with mpmath, up to a hundred thousand trials."""

_TINIEST = 1e-300


def at_least(counts: IntArray | int, trials: int, chances: Array | float) -> Array:
    """P(a binomial count is at least `counts`), rounded up, one by one: I_p(count, trials - count + 1)."""
    p, wanted = np.clip(np.asarray(chances, dtype=np.float64), 0.0, 1.0), np.asarray(counts)
    inside = np.clip(wanted, 1, trials)
    tail = betainc(inside, trials - inside + 1, p) * (1 + _ROUNDING) + _TINIEST
    result: Array = np.where(np.isnan(tail), 1.0, np.minimum(tail, 1.0))
    return np.where(wanted <= 0, 1.0, np.where(wanted > trials, 0.0, result))


def share_at_least(count: int, trials: int, failure: float) -> float:
    """The lower limit of a share: where it is smaller, `count` or more of `trials` have a probability of at most
    `failure`."""
    if count <= 0 or not failure > 0:
        return 0.0
    start = float(betaincinv(count, trials - count + 1, min(failure, 1.0)))
    return _outward(start, lambda p: float(at_least(count, trials, p)) <= failure, 0.0)


def share_at_most(count: int, trials: int, failure: float) -> float:
    """The upper limit of a share: where it is larger, `count` or fewer of `trials` have a probability of at most
    `failure`."""
    return 1.0 - share_at_least(trials - count, trials, failure)


def _outward(start: float, fits: Callable[[float], bool], end: float) -> float:
    """`start`, or the first number from there towards `end`, in doubling steps, that fits; `end` if none does."""
    step = 1e-12
    while step < 0.1:
        moved = start + (end - start) * step
        if fits(moved):
            return moved
        step *= 2
    return end
