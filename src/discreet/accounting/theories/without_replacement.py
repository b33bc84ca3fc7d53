"""Rényi bounds for a Gaussian release on a batch of fixed size, drawn without replacement, under replace-one.

Wang, Balle, Kasiviswanathan 2019 ("Subsampled Rényi differential privacy and analytical moments accountant"),
Theorem 9 with the ternary |chi|^alpha bounds of its Gaussian case: for whole orders a >= 2, with q = batch / population

    (a - 1) D_a <= log(1 + sum over j = 2..a of binomial(a, j) q^j chi_j)
    chi_j = min{4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))), 2 exp(j (j - 1) / (2 s^2))}
    B(l) = sum over i of (-1)^i binomial(l, i) exp(i (i - 1) / (2 s^2)) = E[(e^u - 1)^l],  l even

where e^u is the likelihood ratio of N(1, s^2) to N(0, s^2), under the latter. The sum alternates and cancels: at
l = 256, s = 50 it is about e^-400 of its terms. So the expectation is computed instead, whose integrand is positive.

(a - 1) D_a is convex in a and 0 at 1, so bounds at whole orders give bounds between them. Also D_a <= a / (2 s^2), the
divergence without sampling, since divergences are quasi-convex; beyond `LARGEST` this is the only bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from discreet.core.array_types import Array

LARGEST = 256
"""The largest order for which the sum is taken."""

OUTWARD = 1 + 1e-10

_MAX_POINTS = 20_000


def rdp(rate: float, noise: float, orders: Sequence[float], as_stated: bool = False) -> Array:
    """Upper bounds on D_a at each order, `rate` = batch / population in (0, 1), `noise` relative to a replacement."""
    return np.array([_at(rate, noise, float(order), as_stated) for order in orders]) * OUTWARD


def log_moment(rate: float, noise: float, order: int, as_stated: bool = False) -> float:
    """The bound on (order - 1) D_order at a whole order from 2 to `LARGEST`, rounded up.

    `as_stated`: from j = 3 on, leave out the second term of the minimum, as papers evaluate the theorem.
    """
    j = np.arange(2, order + 1)
    even = np.array([log_even_moment(noise, length) for length in range(2, 2 * ((order + 1) // 2) + 1, 2)])
    binary = math.log(4) + 0.5 * (even[j // 2 - 1] + even[(j + 1) // 2 - 1])
    crude = math.log(2) + j * (j - 1) / (2 * noise**2)
    log_chi = np.where((j > 2) & as_stated, binary, np.minimum(binary, crude))
    log_binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    terms = log_binomial + j * math.log(rate) + log_chi
    rounding = 1e-12 + 2.0**-49 * (np.abs(log_chi) + j * abs(math.log(rate)))
    return float(np.logaddexp(0.0, logsumexp(terms + rounding)))


@lru_cache(maxsize=4096)
def log_even_moment(noise: float, length: int) -> float:
    """log B(length) for an even `length`, rounded up: the trapezoidal rule with a bound on its error.

    The integrand phi(z) (e^u - 1)^l is entire; at height y its modulus is at most phi(x) (1 + e^u)^l e^(y^2 / 2 s^2),
    with integral at most M = 2^l e^(l (l - 1) / (2 s^2) + y^2 / 2 s^2). With step h the rule is off by at most
    2 M / (e^(2 pi y / h) - 1), for any y (Trefethen and Weideman 2014, Theorem 5.1). Left of the window the integrand
    is at most phi, right of it phi e^(l u), which is e^(l (l - 1) / (2 s^2)) times the density of N(l, s^2).

    `need` says how far, in logarithms, these errors must lie below the result to be negligible. It follows from lower
    bounds on the result: by Lyapunov's inequality from B(2), and from the outcomes x > l alone.
    """
    top = length * (length - 1) / (2 * noise**2)
    with np.errstate(over="ignore"):
        power = 0.5 * length * float(np.log(np.expm1(min(noise**-2, 700.0))))
    beyond = top - math.log(2) + length * math.log(-math.expm1(-(2 * length - 1) / (2 * noise**2)))
    need = length * math.log(2) + top - max(power, beyond) + 50.0
    height = math.sqrt(2 * need) * noise
    step = math.pi * height / need
    reach = math.sqrt(2 * need) * noise
    if (length + 2 * reach) / step > _MAX_POINTS:  # noise so small that |e^u - 1| <= max(e^u, 1) loses nothing
        return float(np.logaddexp(top, 0.0)) * (1 + 1e-12)
    x = step * np.arange(math.floor(-reach / step), math.ceil((length + reach) / step) + 1)
    u = (2 * x - 1) / (2 * noise**2)
    with np.errstate(divide="ignore", over="ignore"):
        # e^u - 1 without its overflow
        log_ratio = np.where(u > 1, u + np.log1p(-np.exp(-np.abs(u))), np.log(np.abs(np.expm1(np.minimum(u, 1.0)))))
    log_density = -0.5 * (x / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))
    log_sum = float(logsumexp(log_density + length * log_ratio)) + math.log(step)
    log_error = math.log(2) + length * math.log(2) + top + height**2 / (2 * noise**2) - 2 * math.pi * height / step
    tail = -0.5 * (reach / noise) ** 2  # of either side: Phi(-z) <= e^(-z^2 / 2) / 2
    rounding = 1e-12 + 2.0**-49 * (abs(log_sum) + top + float(np.max(np.abs(x)) / noise**2))
    return float(logsumexp([log_sum, log_error + 1e-9, tail + max(top, 0.0)])) + rounding


def _at(rate: float, noise: float, order: float, as_stated: bool) -> float:
    plain = order / (2 * noise**2)
    low = math.floor(order)
    if low + (order > low) > LARGEST:
        return plain
    if order == low:
        return min(plain, log_moment(rate, noise, low, as_stated) / (order - 1))
    below = log_moment(rate, noise, low, as_stated) if low > 1 else 0.0
    above = log_moment(rate, noise, low + 1, as_stated)
    return min(plain, ((low + 1 - order) * below + (order - low) * above) / (order - 1))
