"""Batches of bounded size: the cost of leaving units out if a Poisson draw exceeds the capacity.

`filled` bounds how likely it is that others fill a batch, which `pld.truncated_pair` prices. The rest is for plans in
which that hardly ever happens, and for theories that know no such pair.

Over T draws, truncated and untruncated batches differ with probability at most T tau, where tau >= P(Bin(population,
rate) > capacity). A mechanism that is (epsilon, delta')-private untruncated is therefore (epsilon, delta)-private
truncated with delta = delta' + (1 + e^epsilon) T tau: the probability of an event changes by at most T tau on both
sides of the inequality. Lower bounds do not change: in a data set of at most `capacity` units nobody is ever left
out, and the worst case of Poisson batches is a unit on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

_UP = 1 + 2.0**-50
_ROUNDS = 12
_MOST_TERMS = 10**6


def overflow(rate: float, capacity: int, population: int) -> float:
    """An upper bound on P(Bin(population, rate) > capacity), at most 1.

    With m = capacity + 1 above the mean, the ratio of successive probabilities from m on is at most
    r = (population - m) rate / ((m + 1) (1 - rate)) < 1, so the tail is at most P(Bin = m) / (1 - r).
    """
    least = capacity + 1
    if least > population:
        return 0.0
    if rate == 1:
        return 1.0
    ratio = (population - least) * rate / ((least + 1) * (1 - rate)) * (1 + 1e-12)
    if not ratio < 1:
        return 1.0
    sizes = [float(gammaln(float(n) + 1)) for n in (population, least, population - least)]
    powers = [least * math.log(rate), (population - least) * math.log1p(-rate)]
    rounding = 2.0**-49 * (sum(sizes) - sum(powers)) + 1e-12
    log_tail = sizes[0] - sizes[1] - sizes[2] + sum(powers) - math.log1p(-ratio) + rounding
    return min(1.0, math.exp(log_tail) + 1e-300) if log_tail < 0 else 1.0


def filled(rate: float, capacity: int, population: int) -> float:
    """An upper bound on P(Bin(population - 1, rate) >= capacity), at most 1: that other units fill a batch.

    The sum of all probabilities from `capacity` on that matter, each from the one before it, and a geometric series for
    the rest.
    """
    draws = population - 1
    if capacity > draws:
        return 0.0
    if rate == 1:
        return 1.0
    mean = draws * rate
    length = min(draws - capacity, int(max(0.0, mean - capacity) + 40 * math.sqrt(mean + 1) + 60))
    if length > _MOST_TERMS:
        return overflow(rate, capacity - 1, draws)
    k = capacity + np.arange(length, dtype=np.float64)
    log_odds = math.log(rate) - math.log1p(-rate)
    terms = np.concatenate(([0.0], np.cumsum(np.log((draws - k) / (k + 1)) + log_odds)))
    last = capacity + length
    falls = (draws - last) / (last + 1) * math.exp(log_odds) * (1 + 1e-12)
    if not falls < 1:
        return 1.0
    peak = float(terms.max())
    total = math.fsum(np.exp(terms - peak)) + math.exp(float(terms[-1]) - peak) * falls / (1 - falls)
    sizes = [float(gammaln(float(n) + 1)) for n in (draws, capacity, draws - capacity)]
    powers = [capacity * math.log(rate), (draws - capacity) * math.log1p(-rate)]
    rounding = 2.0**-49 * (sum(sizes) - sum(powers) + (length + 1) * (1 + float(np.abs(terms).max()))) + 1e-12
    log_tail = sizes[0] - sizes[1] - sizes[2] + sum(powers) + peak + math.log(total) + rounding
    return min(1.0, math.exp(log_tail) + 1e-300) if log_tail < 0 else 1.0


def reserved(bound: Callable[[float], float], delta: float, mass: float) -> float:
    """An upper bound on epsilon at `delta` with truncation; `bound` maps a delta to one without truncation.

    `mass` bounds the probability that any batch overflows. The part of delta to set aside depends on the
    resulting epsilon, so it is found by iteration; if no part suffices, epsilon is infinite.
    """
    upper = bound(delta)
    for _ in range(_ROUNDS):
        reserve = 1.002 * _cost(upper, mass)
        if not reserve < delta:
            return math.inf
        upper = bound((delta - reserve) / _UP)
        if _cost(upper, mass) <= reserve:
            return upper
    return math.inf


def _cost(epsilon: float, mass: float) -> float:
    return (1 + math.exp(epsilon)) * mass * _UP if epsilon < 700 else math.inf
