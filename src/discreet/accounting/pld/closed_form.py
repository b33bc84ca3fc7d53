"""Epsilon of a single release, from two masses: delta(eps) = P(loss > eps) - e^eps Q(loss > eps).

If epsilon is small and losses are rare, a grid of losses needs bins far finer than epsilon, and an inversion needs many
frequencies. A single release needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet.accounting.bisection import bisect
from discreet.accounting.pld.poisson_pair import LEAST_NOISE, Pair

_LARGEST = 600.0
"""Beyond, e^eps and the masses would leave the range of floating point."""


def epsilon_bounds(pair: Pair, delta: float) -> tuple[float, float]:
    """Lower and upper bound on the smallest epsilon >= 0 whose delta is at most `delta`; (0, infinity) on failure."""
    if pair.noise < LEAST_NOISE:
        return 0.0, math.inf
    upper = _around(lambda epsilon: _delta_bounds(pair, epsilon)[1] <= delta)[1]
    if not upper < _LARGEST:
        return 0.0, math.inf
    lower = _around(lambda epsilon: not _delta_bounds(pair, epsilon)[0] > delta)[0]
    return max(0.0, lower - _slack(pair, lower)), upper + _slack(pair, upper)


def _delta_bounds(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Bounds on delta at an unknown point within `_slack` of `epsilon`, where the rounded threshold is exact."""
    cut, slack = pair.bins(np.array([epsilon, math.inf])), _slack(pair, epsilon)
    p, p_error, q, q_error = (float(values[0]) for values in (cut.p, cut.p_error, cut.q, cut.q_error))
    low = p - p_error - math.exp(epsilon + slack) * (q + q_error)
    high = p + p_error + float(cut.above) - math.exp(epsilon - slack) * max(q - q_error, 0.0)
    return low - 2.0**-50 * p, high + 2.0**-50 * p


def _slack(pair: Pair, epsilon: float) -> float:
    """Twice the most that rounding may move a loss, which also covers the rounding of e^eps."""
    return 2 * float(pair.loss_rounding(epsilon))


def _around(holds: Callable[[float], bool]) -> tuple[float, float]:
    """(a point where it does not hold, or 0; a larger one from which on it does), close together."""
    low, high = 0.0, 1e-12
    while not holds(high):
        low, high = high, 4 * high
        if high >= _LARGEST:
            return low, math.inf
    return bisect(holds, low, high, relative=1e-10)
