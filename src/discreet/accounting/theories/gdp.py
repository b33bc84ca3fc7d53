"""Gaussian differential privacy: one number mu, exact for Gaussian releases without sampling.

Any composition of Gaussian releases, also with different multipliers s_i, is one Gaussian mechanism with
mu = sqrt(sum 1 / s_i^2) (Dong, Roth, Su 2019, Corollary 3.3), and its profile has a closed form
(Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2019, Corollary 2.13). With sampling, mu comes from a central limit
theorem (Bu, Dong, Long, Su 2020, equation 3.1) and is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from scipy.special import log_ndtr, ndtr

from discreet.accounting.bisection import bisect

_ROUNDOFF = 2.0**-53


def compose_mu(noises: Iterable[tuple[float, int]]) -> float:
    """mu of a composition, rounded up, from (effective noise multiplier, count) pairs."""
    return math.sqrt(math.fsum(count / noise**2 for noise, count in noises)) * (1 + 8 * _ROUNDOFF)


def delta_bounds(mu: float, epsilon: float) -> tuple[float, float]:
    """Lower and upper bound on delta(epsilon) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2).

    The two terms nearly cancel; the bounds carry the rounding of their logarithms, and of numbers near 1e-308.
    """
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    reach = epsilon / mu + mu
    size = 1 + abs(first) + abs(second) + epsilon + reach * reach  # infinite where ** would overflow
    error = math.exp(first) * 64 * _ROUNDOFF * size + 1e-300
    value = -math.exp(first) * math.expm1(min(second - first, 0.0))
    return max(0.0, value - error), min(1.0, value + error)


def epsilon_bounds(mu: float, delta: float) -> tuple[float, float]:
    """Lower and upper bound on the smallest epsilon >= 0 with delta(epsilon) <= delta; (0, inf) on failure."""
    if not 0 < mu < 1e150:  # its square would leave the range of floating point
        return 0.0, math.inf
    upper = _around(lambda epsilon: delta_bounds(mu, epsilon)[1] <= delta, mu)[1]
    lower = _around(lambda epsilon: not delta_bounds(mu * (1 - 64 * _ROUNDOFF), epsilon)[0] > delta, mu)[0]
    return min(lower, upper), upper


def mu_for(epsilon: float, delta: float) -> float:
    """The largest mu, rounded down, that is (epsilon, delta)-private: inverts `delta_bounds` and `epsilon_bounds`. It
    is 0 if none above 1e-150 is proved to be."""

    def is_too_large(mu: float) -> bool:
        return not delta_bounds(mu, epsilon)[1] <= delta

    low, high = 0.0, 1.0
    while not is_too_large(high) and high < 1e150:
        low, high = high, 2 * high
    return bisect(is_too_large, low, high, relative=1e-13, absolute=1e-150)[0]


def clt_mu(releases: Iterable[tuple[float, float, int]]) -> float:
    """mu of the central limit theorem, from (rate, effective noise multiplier, count): an approximation.

    mu^2 = sum of count x rate^2 (e^(1 / s^2) - 1) (equation 3.1 for equal steps); the terms of rate 1
    are exact: count / s^2.
    """
    return math.sqrt(math.fsum(count * _clt_term(rate, noise) for rate, noise, count in releases))


def clt_mu_fixed_size(releases: Iterable[tuple[float, float, int]]) -> float:
    """`clt_mu` for batches of fixed size under replace-one, whose curve is symmetrised: an approximation.

    mu^2 = sum of count x 2 rate^2 (e^(1 / s^2) Phi(3 / 2s) + 3 Phi(-1 / 2s) - 2) (Dong, Roth, Su 2019, Corollary
    5.4); the terms of rate 1 are exact: count / s^2.
    """
    return math.sqrt(math.fsum(count * _symmetric_clt_term(rate, noise) for rate, noise, count in releases))


def clt_noise(mu: float, rate: float, steps: int) -> float:
    """The noise multiplier whose `clt_mu` is `mu` (Bu, Dong, Long, Su 2020, equation 3.4 solved for sigma)."""
    ratio = mu * mu / steps
    return 1 / math.sqrt(ratio if rate == 1 else math.log1p(ratio / rate**2))


def _clt_term(rate: float, noise: float) -> float:
    return noise**-2 if rate == 1 else rate**2 * math.expm1(noise**-2)


def _symmetric_clt_term(rate: float, noise: float) -> float:
    if rate == 1:
        return noise**-2
    # e^v Phi(3 v^.5 / 2) + 3 Phi(-v^.5 / 2) - 2 with v = 1 / s^2, written so that nothing cancels for small v
    half = 0.5 / noise
    rest = float(ndtr(3 * half)) - 0.5 - 3 * (float(ndtr(half)) - 0.5)
    return 2 * rate**2 * (math.expm1(noise**-2) * float(ndtr(3 * half)) + rest)


def _around(fits: Callable[[float], bool], mu: float) -> tuple[float, float]:
    """(an epsilon that does not fit, a larger one that does), within 1e-12 of each other; `fits` is monotone."""
    if fits(0.0):
        return 0.0, 0.0
    low, high = 0.0, max(mu, mu * mu)
    while not fits(high):
        low, high = high, 2 * high
        if not high < 1e300:
            return low, math.inf
    return bisect(fits, low, high, relative=1e-12)
