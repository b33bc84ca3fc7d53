"""Moments of the Poisson-sampled Gaussian: log E_Q[(P/Q)^alpha], bounded from above at every order > 1.

Q = N(0, s^2) and P = (1 - q) N(0, s^2) + q N(1, s^2), so P/Q = w(x) = 1 - q + q e^u with u = (2 x - 1) / (2 s^2).
Moments are computed as log(1 + (moment - 1)) from positive terms, so nothing cancels if a moment is close to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from discreet.core.array_types import Array, IntArray

MAX_POINTS = 400_000
"""A quadrature that needs more points fails: its order is then infinite, and another order is better."""

_MAX_WHOLE = 1024
_BATCH = 32
"""Rows computed at a time, sorted by noise, so that their arrays stay in the cache."""
_REACH = 9.5


def log_moment(rate: Array | float, noise: Array | float, order: Array | float) -> Array:
    """An upper bound (up to about 1e-12 of itself) on log E_Q[(P/Q)^order] for each `rate` in (0, 1), `noise`, `order`.

    Arguments have shape (k,) or are numbers; the result has shape (k,). Many rows take little longer than one.
    """
    given = (np.atleast_1d(np.asarray(value, float)) for value in (rate, noise, order))
    rates, noises, orders = np.broadcast_arrays(*given)
    at_whole = (orders == np.floor(orders)) & (orders <= _MAX_WHOLE)
    result = np.empty(len(rates))
    for one in np.unique(orders[at_whole]):
        for rows in _batches(np.flatnonzero(at_whole & (orders == one)), noises):
            result[rows] = whole(rates[rows, np.newaxis], noises[rows, np.newaxis], int(one))
    for rows in _batches(np.flatnonzero(~at_whole), noises):
        result[rows] = quadrature(rates[rows, np.newaxis], noises[rows, np.newaxis], orders[rows, np.newaxis])
    return result


def _batches(rows: IntArray, noises: Array) -> Iterator[IntArray]:
    by_noise = rows[np.argsort(noises[rows], kind="stable")]
    for start in range(0, len(rows), _BATCH):
        yield by_noise[start : start + _BATCH]


def whole(rate: Array, noise: Array, order: int) -> Array:
    """log sum over k of binomial(order, k) (1 - q)^(order - k) q^k exp(k (k - 1) / (2 s^2)).

    Mironov, Talwar, Zhang 2019 ("Rényi DP of the sampled Gaussian mechanism"), section 3.3. The binomial terms
    sum to 1, so this is log(1 + sum over k >= 2 of binomial ... (exp(...) - 1)), all terms positive.
    """
    k = np.arange(2, order + 1)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    exponent = k * (k - 1) / (2 * noise**2)
    terms = log_binomial + (order - k) * np.log1p(-rate) + k * np.log(rate)
    log_sum = _log_sum(terms + exponent + np.log(-np.expm1(-exponent)))
    # in a term, large logarithms of powers, binomial and exponential may cancel
    size = order * (order / (2 * noise**2) - np.log(rate) - np.log1p(-rate)) + 3 * gammaln(order + 1)
    result: Array = np.logaddexp(0.0, log_sum + 2.0**-49 * size[:, 0])
    return result


def quadrature(rate: Array, noise: Array, order: Array | float) -> Array:
    """`whole` at any orders > 1, by the trapezoidal rule with a bound on its error.

    The integrand phi(z) w(z)^order is analytic in the strip |Im z| < pi s^2 (w has its zeros on the edge), and
    there |phi(x + iy)| <= phi(x) e^(y^2 / 2 s^2), |w(x + iy)| <= w(x). So with step h the rule is off by at most
    r x moment, r = 2 e^(a^2 / 2 s^2) / (e^(2 pi a / h) - 1), for any a in the strip (Trefethen and Weideman 2014,
    Theorem 5.1). The linear part that `_log_excess` subtracts adds r (|1 - order q| + order q). The step makes
    r negligible compared with the least value of moment - 1.

    Truncation: left of the window the terms are at most (order - 1) phi, right of it at most phi w^order, whose
    logarithm has slope at most (order - x) / s^2; both tails are added as geometric series.
    """
    order = np.broadcast_to(np.asarray(order, float), rate.shape)
    need = 36.0 - 2 * np.log(rate) + 2 * np.maximum(0.0, np.log(noise)) - np.minimum(0.0, np.log(order - 1))
    strip = np.minimum(0.999 * math.pi * noise**2, np.sqrt(2 * need) * noise)
    step = 2 * math.pi * strip / (need + strip**2 / (2 * noise**2))
    reach = np.maximum(_REACH, np.sqrt(2 * need)) * noise
    low, high = np.floor(-reach / step), np.ceil((order + reach) / step)
    if len(rate) > 1 and len(rate) * float(high.max() - low.min()) > MAX_POINTS:
        half = len(rate) // 2
        parts = (slice(half), slice(half, None))
        return np.concatenate([quadrature(rate[rows], noise[rows], order[rows]) for rows in parts])
    if not (high - low).max() < MAX_POINTS:
        return np.full(len(rate), np.inf)
    # One range of whole numbers for all rows: points beyond a row's own range cost no accuracy.
    x = step * np.arange(low.min(), high.max() + 1)
    log_density = -0.5 * (x / noise) ** 2 - np.log(noise * math.sqrt(2 * math.pi))
    log_terms = log_density + _log_excess(rate, order, (2 * x - 1) / (2 * noise**2))
    log_decay = np.log(-np.expm1(-step * reach / noise**2))
    log_w_end = np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x[:, -1:] - 1) / (2 * noise**2))
    left = np.log(order - 1) + log_density[:, :1] - log_decay
    right = order * log_w_end + log_density[:, -1:] - log_decay
    log_sum = _log_sum(np.concatenate((log_terms, left, right), axis=1)) + np.log(step[:, 0])
    log_error = (math.log(2) + strip**2 / (2 * noise**2) - 2 * math.pi * strip / step)[:, 0]
    log_error += np.logaddexp(0.0, log_sum) + np.log(3 + 2 * (order * rate)[:, 0]) + 1e-9
    # in a term, order log w and the log density may cancel, most at the farthest outcome that counts
    farthest = order + reach
    size = order * (farthest / noise**2 - np.log(rate)) + (farthest / noise) ** 2
    rounding = 1e-12 + 3e-13 / (order[:, 0] - 1) + 2.0**-50 * size[:, 0]
    bound: Array = np.logaddexp(0.0, np.logaddexp(log_sum, np.maximum(log_error, -690.0)) + rounding)
    return bound


def _log_sum(exponents: Array) -> Array:
    """log of the sum of exponentials along the last axis."""
    peak = exponents.max(axis=-1)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    result: Array = peak + np.log(np.exp(exponents - peak[..., np.newaxis]).sum(axis=-1))
    return result


def _log_excess(rate: Array, order: Array, exponent: Array) -> Array:
    """log(w^a - 1 - a (w - 1)) where w = 1 + t, t = q (e^exponent - 1): positive (Bernoulli), and E_Q[w - 1] = 0."""
    log_w = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        t = rate * np.expm1(exponent)
        near = _series(order, np.where(np.abs(order * t) < 0.05, t, 0.0))
        power = order * log_w
        middle = np.log(np.expm1(np.minimum(power, 50.0)) - order * t)
        far = power  # an upper bound, too large by less than e^-30 of the term
        chosen = np.where(np.abs(order * t) < 0.05, near, np.where(power > 40.0, far, middle))
    result: Array = np.where(np.isnan(chosen), np.maximum(power, 0.0), chosen)
    return result


def _series(order: Array, t: Array) -> Array:
    """log of a (a - 1) / 2 t^2 (1 + (a - 2) / 3 t (1 + (a - 3) / 4 t (...))), the binomial series from t^2 on.

    For |a t| < 0.05 and twelve terms the remainder is below 1e-15 of the value.
    """
    total = np.ones_like(t)
    for k in range(13, 2, -1):
        total = 1 + (order - k + 1) / k * t * total
    with np.errstate(divide="ignore"):
        result: Array = np.log(order * (order - 1) / 2) + 2 * np.log(np.abs(t)) + np.log(total)
    return result
