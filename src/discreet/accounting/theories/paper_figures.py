"""Figures as papers compute them, for reproduction and comparison; they never certify.

Every function returns a plain number, which `account` labels. If a formula differs from what is proved, its docstring
says how.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, logsumexp

from discreet.accounting.theories import basic_and_advanced, rdp, zcdp
from discreet.core.array_types import Array
from discreet.core.errors import InputError, NotProved

LECUYER_ORDERS: tuple[float, ...] = (*(1.25 + 0.25 * k for k in range(36)), 16, 32)
"""The 38 orders of Lecuyer 2021, section 4.5."""


def moments(curve: rdp.Curve, delta: float) -> float:
    """The moments accountant (Abadi et al. 2016): the Rényi curve with the classic conversion, at the best order.

    A bound, but a loose one. The papers took a fixed list of orders, most of them whole; the best of all orders
    agrees with their printed figures more often than any list does.
    """
    return rdp.epsilon(curve, delta, rdp.classic)[0]


def zcdp_rf(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """zCDP(RF) of Yu et al. 2019, section IV-B1, from (rate, noise, steps): rate x steps epochs at 1 / (2 s^2) each.

    Proved for reshuffled epochs of disjoint batches (their Theorem 2: an epoch costs its dearest batch), and not for
    Poisson batches.
    """
    rho = math.fsum(rate * steps / (2 * noise**2) for rate, noise, steps in parts)
    return zcdp.epsilon_loose(rho, delta)


def zcdp_rs(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """zCDP(RS) of Yu et al. 2019, section IV-B2: rho = sum of steps q^2 / s^2, for orders up to u.

    u = min over the steps of s^2 log(1 / (q s)) + 1. If the best order 1 + sqrt(log(1/delta) / rho) is beyond u,
    epsilon = rho u + log(1/delta) / (u - 1) (their Theorem 3). D_alpha <= alpha q^2 / s^2 is a conjecture, which
    they checked for q <= 1 / (16 s) and s >= 1 (Appendix G); other plans are an `InputError`. Below s = 1 it is
    false: q = .01, s = .5, alpha = 2 gives .0053 against .0008. It is also false at the corner of the checked range:
    q = 1/16, s = 1, alpha = 3.77 gives 1.157 times the bound.
    """
    for rate, noise, _ in parts:
        if not (noise >= 1 and rate <= 1 / (16 * noise)):
            raise InputError(
                f"zcdp-rs was checked for noise at least 1 and rate at most 1 / (16 noise) only, and this plan has "
                f"rate {rate:g} and noise {noise:g}; use method pld or rdp"
            )
    rho = math.fsum(steps * (rate / noise) ** 2 for rate, noise, steps in parts)
    top = min(noise**2 * -math.log(rate * noise) + 1 for rate, noise, _ in parts)
    if math.sqrt(-math.log(delta) / rho) <= top - 1:
        return zcdp.epsilon_loose(rho, delta)
    return rho * top - math.log(delta) / (top - 1)


def strong(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """Strong composition as in Yu et al. 2019, figure 2, from (rate, noise, steps), at the best split of delta.

    Each step is (sqrt(2 log(1.25/d)) / s, d), a formula that is proved only for an epsilon below 1 (Dwork and Roth
    2014, Theorem A.1), amplified by sampling, composed by Dwork, Rothblum, Vadhan.
    """

    def at(share: float) -> float:
        each = delta * share / sum(steps for _, _, steps in parts)
        pairs = []
        for rate, noise, steps in parts:
            before = min(each / rate, 1.0)
            pairs.append((basic_and_advanced.amplified(_textbook(before) / noise, before, rate)[0], steps))
        if any(epsilon > 700 for epsilon, _ in pairs):
            return math.inf
        return basic_and_advanced.advanced(pairs, delta * (1 - share))

    return min(at(1 / (1 + math.exp(-k / 16))) for k in range(-160, 161))


def adadp(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """Theorem 1 of Xu et al. 2019 (ADADP) as printed, at the best order of 2..256, from (rate, noise, steps).

    It is the theorem of Wang, Balle, Kasiviswanathan 2019 (`without_replacement`), but the exponents of its sums are
    printed as (i - 1) l / (2 s^2) instead of i (i - 1) / (2 s^2). As printed, B(l) = e^-c (e^c - 1)^l for even l, with
    c = l / (2 s^2).
    """
    if all(rate == 1 for rate, _, _ in parts):
        raise NotProved("method adadp is about sampled batches; without sampling use method gdp or zcdp")
    best = math.inf
    for order in range(2, 257):
        total = math.fsum(steps * _adadp_moment(rate, noise, order) for rate, noise, steps in parts)
        best = min(best, (total - math.log(delta)) / (order - 1))
    return best


def _adadp_moment(rate: float, noise: float, order: int) -> float:
    """(order - 1) times the printed bound on one step's Rényi divergence; without sampling, the exact one."""
    v = noise**-2
    if rate == 1:
        return order * (order - 1) * v / 2
    j = np.arange(2, order + 1)
    low, high = 2 * (j // 2), 2 * ((j + 1) // 2)
    log_b = [length * _log_expm1(length * v / 2) - length * v / 2 for length in (low, high)]
    log_chi = math.log(4) + 0.5 * (log_b[0] + log_b[1])
    log_chi[0] = min(math.log(4) + float(_log_expm1(np.asarray(v))), math.log(2) + v)
    log_binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    return float(np.logaddexp(0.0, logsumexp(log_binomial + j * math.log(rate) + log_chi)))


def _log_expm1(x: Array) -> Array:
    result: Array = x + np.log(-np.expm1(-x))
    return result


def dropout_ac(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """DPD-AC: `dropout_advanced` from (rate, their sigma, steps), at the best split of delta.

    The paper counts passes over the data, rate x steps, where the theorem counts releases, so the figure is far below
    the epsilon that the theorem proves.
    """
    rate, noise, passes = _one_level(parts, "dropout-ac")
    return min(dropout_advanced(noise, passes, rate, delta, 1 / (1 + math.exp(-k / 4))) for k in range(-40, 41))


def dropout_zcdp(parts: Sequence[tuple[float, float, int]], delta: float) -> float:
    """DPD-zCDP from (rate, their sigma, steps): the epsilon at which the paper's sigma (section 4.3, equations 6 and 7)
    is the given one.

    rho = T / (2 tau) from epsilon = rho + 2 sqrt(rho log(1/delta)); e' = sqrt(2 log(1.25/d') / tau) with
    d' = q delta_iter; e_iter from e' = log(1 + q (exp(e_iter) - 1)); sigma = sqrt(2 log(1.25/delta_iter)) / e_iter.
    No theorem allows the last two: amplification is stated for (epsilon, delta), and is applied to a zCDP figure.
    The paper does not state delta_iter; it is delta here, the simplest reading, by which sigma = 3.23 is epsilon = 0.5
    at delta = 1e-6.
    """
    rate, noise, passes = _one_level(parts, "dropout-zcdp")
    each = _textbook(delta) / noise
    if each > 700:
        return math.inf
    step = math.log1p(rate * math.expm1(each))
    tau = (_textbook(rate * delta) / step) ** 2
    return zcdp.epsilon_loose(passes / (2 * tau), delta)


def _one_level(parts: Sequence[tuple[float, float, int]], method: str) -> tuple[float, float, float]:
    """(rate, noise, passes) of a plan with one noise level."""
    levels = {(rate, noise) for rate, noise, _ in parts}
    if len(levels) > 1:
        raise NotProved(f"method {method} is stated for one rate and one noise level; use method pld")
    ((rate, noise),) = levels
    if rate == 1:
        raise NotProved(f"method {method} is about sampled batches; without sampling use method gdp or zcdp")
    return rate, noise, rate * sum(steps for _, _, steps in parts)


def dropout_advanced(noise: float, passes: float, rate: float, delta: float, share: float = 0.5) -> float:
    """Epsilon of DP dropout by advanced composition (section 4.3): sqrt(2 T log(1/d')) e + T e^2, d' = share x delta.

    e = log(1 + q (exp(sqrt(2 log(1.25/d_iter)) / s) - 1)), d_iter = (delta - d') / (T q). The paper's sigma 10.88
    results only if T counts passes over the data (200) instead of iterations (20,000), and for one split of delta that
    the paper does not state.
    """
    each = _textbook(delta * (1 - share) / (passes * rate)) / noise
    if each > 700:
        return math.inf
    step = math.log1p(rate * math.expm1(each))
    return math.sqrt(-2 * passes * math.log(share * delta)) * step + passes * step**2


def _textbook(delta: float) -> float:
    """sqrt(2 log(1.25/delta)): epsilon x sigma of the Gaussian mechanism (Dwork and Roth 2014, Theorem A.1)."""
    return math.sqrt(2 * math.log(1.25 / min(delta, 1.0)))
