"""Probabilities of tails, with which a sound build looks at least as bad as what was seen.

All are exact, or rounded up: an audit adds them up (Bonferroni), so none may be too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import bdtr, bdtrc, betainc, gammainc, gammaincc, gammaln

from discreet.core.array_types import Array


def at_most(count: int, trials: int, chance: float) -> float:
    """P(a binomial count is at most `count`)."""
    return 1.0 if count >= trials else 0.0 if count < 0 else float(bdtr(count, trials, chance))


def at_least(count: int, trials: int, chance: float) -> float:
    """P(a binomial count is at least `count`)."""
    return 1.0 if count <= 0 else 0.0 if count > trials else float(bdtrc(count - 1, trials, chance))


def binomial(count: int, trials: int, chance: float) -> float:
    """The two-sided p-value of a binomial count."""
    return min(1.0, 2 * min(at_most(count, trials, chance), at_least(count, trials, chance)))


def of_law(value: int, law: Array) -> float:
    """The two-sided p-value of a whole number under `law`, the probabilities of 0, 1, 2, ..."""
    low, high = float(law[: value + 1].sum()), float(law[max(0, value) :].sum())
    return min(1.0, 2 * min(low, high) * (1 + 1e-9))


def sum_law(laws: Iterable[Array]) -> Array:
    """The law of the sum of independent whole numbers with these laws."""
    found = np.ones(1)
    for law in laws:
        found = np.convolve(found, law)
    return found


def repeated_law(law: Array, times: int) -> Array:
    """The law of the sum of so many independent whole numbers with one law, by Fourier transform: each probability is
    rounded up by more than what that loses, which is some 1e-16."""
    length = times * (len(law) - 1) + 1
    found = np.fft.irfft(np.fft.rfft(law, 2 * length) ** times, 2 * length)[:length]
    rounded: Array = np.maximum(found, 0.0) + 1e-14
    return rounded


def overlap_law(units: int, one: int, other: int) -> Array:
    """The law of how many of `units` are in both of two independent random subsets of these sizes: hypergeometric."""
    k = np.arange(min(one, other) + 1)
    valid = other - k <= units - one
    safe = np.where(valid, k, min(one, other))

    def choose(n: Array | int, r: Array | int) -> Array:
        found: Array = gammaln(np.add(n, 1.0)) - gammaln(np.add(r, 1.0)) - gammaln(np.subtract(n, r) + 1.0)
        return found

    logs = choose(one, safe) + choose(units - one, other - safe) - choose(units, other)
    law = np.where(valid, np.exp(logs), 0.0)
    found: Array = law / law.sum()
    return found


def overlaps(total: int, units: int, sizes: Sequence[tuple[int, int]]) -> float:
    """The two-sided p-value of how many units pairs of random subsets of these sizes have in common, added up."""
    return of_law(total, sum_law(overlap_law(units, one, other) for one, other in sizes))


def less_spread(squares: float, numbers: int) -> float:
    """P(the sum of squares of so many standard normals is at most `squares`)."""
    return float(gammainc(numbers / 2, squares / 2))


def more_spread(squares: float, numbers: int) -> float:
    """P(the sum of squares of so many standard normals is at least `squares`)."""
    return float(gammaincc(numbers / 2, squares / 2))


def correlation(value: float, numbers: int) -> float:
    """P(two independent vectors of so many equal normals have a correlation at least as large): exact, as the square of
    it is Beta(1/2, (numbers - 1) / 2), whatever one of the vectors is."""
    if numbers < 2:
        return 1.0
    return float(betainc((numbers - 1) / 2, 0.5, min(1.0, max(0.0, 1 - value**2))))


def furthest(uniform: Array) -> tuple[float, float]:
    """(p, distance) of Kolmogorov and Smirnov's test of numbers that should be uniform on [0, 1]. p is Massart's bound
    (1990), which holds for any number of them and is tight where it is small."""
    values = np.sort(uniform)
    steps = np.arange(len(values) + 1) / len(values)
    distance = float(max(np.max(steps[1:] - values), np.max(values - steps[:-1])))
    return min(1.0, 2 * math.exp(-2 * len(values) * distance**2)), distance
