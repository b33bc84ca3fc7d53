"""Composition of (epsilon, delta) pairs: basic and advanced, with amplification by Poisson sampling.

These oldest theorems are the loosest; they serve for comparison, and for mechanisms of which only (epsilon, delta) is
known. Each release first gets a share of delta, which turns it into a pair (epsilon_i, delta_i). Every way of sharing
gives a bound, and the best of those tried is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_UP = 1 + 2.0**-44
_DOWN = 1 - 2.0**-44


@dataclass(frozen=True, slots=True)
class Part:
    """`count` releases; a unit takes part in each with probability `rate`.

    `epsilon` maps a delta (0 included) to the epsilon of one release without sampling, rounded up.
    """

    rate: float
    epsilon: Callable[[float], float]
    count: int


def amplified(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """(log(1 + q (e^eps - 1)), q delta), for Poisson sampling under add/remove and zero-out.

    Li, Qardaji, Su 2012, Theorem 1; Balle, Barthe, Gaboardi 2018, Theorem 8.
    """
    if rate == 1:
        return epsilon, delta
    if epsilon > 600:  # log(1 - q + q e^eps) without the overflow
        return (epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))) * _UP + 1e-300, rate * delta
    return math.log1p(rate * math.expm1(epsilon)) * _UP, rate * delta


def basic(pairs: Sequence[tuple[float, int]]) -> float:
    """The sum of the epsilons in (epsilon, count) pairs (Dwork and Roth 2014, Theorem 3.16). Deltas add up too."""
    return math.fsum(epsilon * count for epsilon, count in pairs) * _UP


def advanced(pairs: Sequence[tuple[float, int]], slack: float) -> float:
    """sqrt(2 log(1/slack) sum eps_i^2) + sum eps_i (e^eps_i - 1); delta = slack + the sum of deltas.

    Dwork, Rothblum, Vadhan 2010, Theorem III.3, for unequal steps. (Lecuyer 2021, section 2.1, prints eps_i - 1 for
    e^eps_i - 1. Yu et al. 2019, section III, call this strong composition.)
    """
    return _advanced(pairs, slack, math.expm1)


def optimised(pairs: Sequence[tuple[float, int]], slack: float) -> float:
    """`advanced` with (e^eps_i - 1) / (e^eps_i + 1) for e^eps_i - 1: Kairouz, Oh, Viswanath 2015, Theorem 3.5."""
    return _advanced(pairs, slack, lambda epsilon: math.tanh(epsilon / 2))


def by_basic(parts: Sequence[Part], delta: float) -> float:
    """Epsilon of all parts together at `delta` by basic composition, every release with the same share of delta."""
    return basic(_share(parts, delta * _DOWN))


def by_advanced(parts: Sequence[Part], delta: float) -> float:
    """Epsilon by `optimised`, over a grid of splits of delta between the releases and the slack, or by basic.

    If no release needs a delta (Laplace noise), all of it goes to the slack.
    """
    best = by_basic(parts, delta)
    for part in _SPLITS:
        pairs = _share(parts, delta * part * _DOWN)
        best = min(best, optimised(pairs, delta * (1 - part) * _DOWN))
    return best


_SPLITS = (0.0, *(10.0**-k for k in (6, 4, 3, 2)), *(k / 20 for k in range(1, 20)), 0.97, 0.99)


def _share(parts: Sequence[Part], delta: float) -> list[tuple[float, int]]:
    """(epsilon, count) of each part if every release adds the same amount to a total of `delta`."""
    each = delta / sum(part.count for part in parts)
    pairs = []
    for part in parts:
        before = min(each / part.rate, 0.5)  # what sampling multiplies by the rate
        pairs.append((amplified(part.epsilon(before), before, part.rate)[0], part.count))
    return pairs


def _advanced(pairs: Sequence[tuple[float, int]], slack: float, drift: Callable[[float], float]) -> float:
    if any(not epsilon < 700 for epsilon, _ in pairs):
        return math.inf
    spread = math.fsum(count * epsilon**2 for epsilon, count in pairs)
    mean = math.fsum(count * epsilon * drift(epsilon) for epsilon, count in pairs)
    return (math.sqrt(-2 * math.log(slack) * spread) + mean) * _UP
