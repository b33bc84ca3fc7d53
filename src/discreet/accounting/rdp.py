"""Rényi differential privacy of Gaussian and Poisson-sampled Gaussian releases, at whole orders.

Sampled: Mironov, Talwar, Zhang 2019 ("Rényi DP of the sampled Gaussian mechanism"), section 3.3; the
divergence of the mixture from the null dominates both directions there (Theorem 5). Unsampled: alpha / (2 s^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import gammaln, logsumexp

from discreet.core.arrays import Array

ORDERS: tuple[int, ...] = (*range(2, 65), *range(68, 129, 4), 160, 192, 256, 384, 512, 768, 1024)

_OUTWARD = 1 + 1e-10
"""Covers the rounding of sums of at most a thousand positive terms, each known to about 1e-11 of itself."""


def sampled_gaussian(rate: float, noise: float) -> Array:
    """RDP at each of `ORDERS` of one release, shape (len(ORDERS),), rounded up."""
    if rate == 1:
        return np.array(ORDERS) / (2 * noise**2) * _OUTWARD
    return np.array([_log_moment(rate, noise, order) / (order - 1) for order in ORDERS]) * _OUTWARD


def compose(releases: Iterable[tuple[float, float, int]]) -> Array:
    """RDP at each order of (rate, effective noise multiplier, count) releases together."""
    total = np.zeros(len(ORDERS))
    for rate, noise, count in releases:
        total += count * sampled_gaussian(rate, noise)
    return total


def epsilon(rdp: Array, delta: float) -> float:
    """The least epsilon over the orders: Canonne, Kamath, Steinke 2020, Proposition 12.

    epsilon = rdp + log((a - 1) / a) - (log delta + log a) / (a - 1); each order is a bound, so is the least.
    """
    orders = np.array(ORDERS, dtype=np.float64)
    bound = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    best = float(np.min(bound)) * _OUTWARD + 1e-12
    return max(0.0, best) if math.isfinite(best) else math.inf


def _log_moment(rate: float, noise: float, order: int) -> float:
    """log sum over k of binomial(order, k) (1 - q)^(order - k) q^k exp(k (k - 1) / (2 s^2)).

    The binomial terms sum to 1, so this is log(1 + sum over k >= 2 of binomial ... (exp(...) - 1)), all terms
    positive: nothing cancels where the moment is far below the precision of a double.
    """
    k = np.arange(2, order + 1)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    exponent = k * (k - 1) / (2 * noise**2)
    terms = log_binomial + (order - k) * math.log1p(-rate) + k * math.log(rate)
    return float(np.logaddexp(0.0, logsumexp(terms + exponent + np.log(-np.expm1(-exponent)))))
