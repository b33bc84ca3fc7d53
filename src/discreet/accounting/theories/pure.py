"""Releases of which only a pure guarantee is known, and releases of bounded range.

| class               | worst pair of distributions                    | Rényi bound                 | rho         |
|---------------------|------------------------------------------------|-----------------------------|-------------|
| pure, epsilon       | randomised response                            | `rdp_pure`                  | epsilon^2/2 |
| bounded range, eps. | losses in [t - epsilon, t], t as bad as can be | `rdp_bounded_range`         | epsilon^2/8 |

Every pure mechanism is post-processing of randomised response (Kairouz, Oh, Viswanath 2015, Theorem 2.1 with
delta 0). For bounded range: Dong, Durfee, Rogers 2020, section 3; the rho is Cesar and Rogers 2021, Lemma 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.core.array_types import Array

_OUTWARD = 1 + 1e-10
_DOWN = 1 - 2.0**-36


def rdp_pure(epsilon: float, orders: Sequence[float]) -> Array:
    """log(p e^((a - 1) eps) + (1 - p) e^(-(a - 1) eps)) / (a - 1), p = e^eps / (1 + e^eps): randomised response.

    If rounding spoils that formula, the weaker a eps^2 / 2 is used (Bun and Steinke 2016, Proposition 3.3).
    """
    order = np.asarray(orders, dtype=np.float64)
    top = (order - 1) * epsilon
    p, rest = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(min(epsilon, 700.0)))
    log_sum = top + np.log(p + rest * np.exp(-2 * top))
    exact = (log_sum + 2.0**-48 * (1 + top)) / (order - 1)
    return np.minimum(np.minimum(exact, epsilon), order * epsilon**2 / 2) * _OUTWARD


def rdp_bounded_range(epsilon: float, orders: Sequence[float]) -> Array:
    """The largest divergence over all mechanisms whose loss stays in an interval of length epsilon.

    For the two losses t - eps and t (by convexity the worst case) the moment is
    (e^((a - 1) t) A - e^(a t) B) / (1 - e^-eps), A = 1 - e^(-a eps), B = e^-eps - e^(-a eps), which is largest at
    e^t = (a - 1) A / (a B). If rounding spoils that formula, the weaker
    a eps^2 / 8 is used (Hoeffding's lemma).
    """
    order = np.asarray(orders, dtype=np.float64)
    a = -np.expm1(-order * epsilon)
    log_rise, log_fall = np.log((order - 1) * a / order), np.log(-np.expm1(-(order - 1) * epsilon))
    log_a, log_span = np.log(a / order), math.log(-math.expm1(-epsilon))
    log_t = log_rise + epsilon - log_fall
    # near order 1, or at a small epsilon, large logarithms cancel: each has an error of its own size
    size = (order - 1) * (np.abs(log_rise) + np.abs(log_fall) + epsilon + 4) + np.abs(log_a) + abs(log_span) + 4
    exact = ((order - 1) * log_t + log_a - log_span + 2.0**-50 * size) / (order - 1)
    with np.errstate(invalid="ignore"):
        exact = np.where(np.isnan(exact), np.inf, exact)
    return np.minimum(np.minimum(exact, epsilon), order * epsilon**2 / 8) * _OUTWARD


def bounded_range_epsilon(epsilon: float, delta: float) -> float:
    """The least epsilon x, rounded up, at which one release of bounded range `epsilon` has delta(x) <= `delta`.

    delta(x) = (1 - e^((x - eps) / 2))^2 / (1 - e^-eps) for the worst place of the range (`pld.bounded`; Dong, Durfee,
    Rogers 2020, section 3), in both directions. If `delta` is at least delta(0) = tanh(eps / 4), x is 0.
    """
    gain = -2 * math.log1p(-math.sqrt(min(delta * -math.expm1(-epsilon), 1.0) * (1 - 2.0**-50)))
    return max(0.0, epsilon - gain + 2.0**-46 * (epsilon + gain + 1))


def largest_range(x: float, delta: float) -> float:
    """The largest range, rounded down, with delta(x) <= `delta`: the inverse of `bounded_range_epsilon`.

    With y = e^(-eps / 2) and b = e^(-x / 2), (1 - y / b)^2 = delta (1 - y^2) is quadratic in y.
    """
    small = math.exp(-x)
    root = math.sqrt(delta * (1 - small * (1 - delta)))
    return (x - 2 * math.log1p(-root) + 2 * math.log1p(delta * small)) * _DOWN - 2.0**-44
