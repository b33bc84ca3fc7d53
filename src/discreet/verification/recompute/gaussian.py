"""The exact curve of one Gaussian release: N(0, 1) against N(mu, 1)."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import erfcx, ndtr

from discreet.verification.recompute.poisson_loss import EPS, MU_ERROR


def epsilon_bounds(mu: float, delta: float) -> tuple[float, float]:
    """The interval for the epsilon of Balle and Wang (2018), theorem 8, rounded outward; delta falls with epsilon."""
    high, low = mu * (1 + MU_ERROR), mu * (1 - MU_ERROR)
    upper = _last(lambda epsilon: not _delta(epsilon, high, +1) <= delta)[1]
    lower = _last(lambda epsilon: _delta(epsilon, low, -1) > delta)[0]
    return lower, upper


def _delta(epsilon: float, mu: float, sign: int) -> float:
    """Phi(-u) - e^epsilon Phi(-v), u = epsilon/mu - mu/2, v = u + mu, moved by its float error in direction `sign`.

    e^epsilon exp(-v^2/2) = exp(-u^2/2), hence e^epsilon Phi(-v) = exp(-u^2/2) erfcx(v/sqrt 2) / 2 without overflow.
    An error d in the argument changes either term by at most a factor exp(d (1 + |u|)) to first order (Mills' ratio).
    """
    u, v = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    bell = 0.5 * math.exp(-u * u / 2) if abs(u) < 1e150 else 0.0
    gain = bell * float(erfcx(u / math.sqrt(2))) if u > 0 else float(ndtr(-u))
    cost = bell * float(erfcx(v / math.sqrt(2)))
    error = EPS * (32 + 2 * u * u + 8 * (1 + abs(u)) * v) * (gain + cost)
    value = gain - cost + sign * error
    return value if math.isfinite(value) else math.inf * sign


def _last(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring floats (a, b): `holds` is true at a, false at b; (0, 0) if false at 0, (0, inf) if never false."""
    if not holds(0.0):
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
        if not math.isfinite(high):
            return 0.0, math.inf
    for _ in range(1100):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
