"""Upper bounds on the Rényi divergences of a certificate's parts, which a filter adds up.

One step tells neighbours apart like N = N(0, 1) from M = (1 - q) N + q N(mu, 1), e(z) = exp(mu z - mu^2 / 2). At an
order a > 1 it costs log E_N[(1 - q + q e)^a] / (a - 1), in either direction (Mironov, Talwar and Zhang 2019, theorem
5); costs of steps add up. E_N[e] = 1, so E_N[(1 - q + q e)^a] = 1 + E_N[g(e)], g(e) = (1 - q + q e)^a - 1 - a q (e - 1)
>= 0, which is convex:
  whole a: a sum of positive terms, since E_N[e^k] = exp(k (k - 1) mu^2 / 2);
  other a: each bin of z is moved to its ends with the mass and the mean of e kept. By Jensen that can only add.
Not sampled, q = 1: a mu^2 / 2. A period of random allocation: the same, as if its step were known (divergences are
quasi-convex).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from discreet.verification.recompute.events import Part
from discreet.verification.recompute.poisson_loss import EPS, MU_ERROR, Array

OUTWARD = 1 + 1e-11
"""Covers the rounding of sums of positive terms, each known to about 1e-13 of itself."""

_WIDTH = 1e-3
"""Of the bins, in deviations and relative to e: Jensen's step adds about a sixth of the square."""

HIGHEST = 2048
"""Divergences of sampled steps at higher orders are not computed."""

MOST_ORDERS, _MOST_BINS = 1000, 2**23

_REACH = 20.0
"""Deviations before the tails, which are bounded by themselves."""


def renyi(parts: Sequence[Part], order: float) -> float:
    """An upper bound on the divergence at `order` of all parts together; infinite where none can be computed."""
    try:
        return math.fsum(part.count * _one(part, order) for part in parts) * OUTWARD
    except (ArithmeticError, ValueError):
        return math.inf


def _one(part: Part, order: float) -> float:
    mu = part.mu * (1 + MU_ERROR)
    if part.rate == 1 or part.steps > 1:  # knowing in which step of a period a unit takes part tells more
        return order * mu * mu / 2 * OUTWARD
    if order > HIGHEST:
        return math.inf  # a stranger's certificate shall not keep its reader busy
    if order == int(order):
        return _whole(part.rate, mu, int(order)) / (order - 1) * OUTWARD
    if (order * mu + 2 * _REACH) * max(1.0, mu) > _MOST_BINS * _WIDTH:
        return math.inf
    return _other(part.rate, mu, order) / (order - 1) * OUTWARD


def _whole(rate: float, mu: float, order: int) -> float:
    """log(1 + E[g]), E[g] the sum over k >= 2 of C(a, k) (1 - q)^(a - k) q^k (exp(k (k - 1) mu^2 / 2) - 1)."""
    log_in, log_out = math.log(rate), math.log1p(-rate)
    logs = []
    for k in range(2, order + 1):
        growth = k * (k - 1) * mu * mu / 2
        rise = math.log(math.expm1(growth)) if growth < 30 else growth
        logs.append(math.log(math.comb(order, k)) + k * log_in + (order - k) * log_out + rise)
    top = max(logs)
    log_gain = top + math.log(math.fsum(math.exp(each - top) for each in logs)) + 4096 * EPS * (1 + abs(top))
    return _log1p_exp(log_gain)


def _other(rate: float, mu: float, order: float) -> float:
    """log(1 + E[g]) over bins of z from -20 to a mu + 20, and both tails; in logarithms, as e^a may be huge."""
    high = order * mu + _REACH
    z = np.linspace(-_REACH, high, math.ceil((high + _REACH) * max(1.0, mu) / _WIDTH) + 1)
    e = np.exp(mu * z - mu * mu / 2)
    mass, moved = _log_between(z), _log_between(z - mu)
    # e is on average exp(moved - mass) in a bin: the share of the mass that goes to its upper end, and its error
    error = 32 * EPS * (4 + z[1:] ** 2 + (z[1:] - mu) ** 2) / np.expm1(mu * np.diff(z))
    share = np.clip((np.exp(moved - mass) - e[:-1]) / np.diff(e) + error, 0.0, 1.0)
    value = _log_convex(rate, order, e)
    with np.errstate(divide="ignore"):
        inside = mass + np.logaddexp(np.log1p(-share) + value[:-1], np.log(share) + value[1:])
    # below: e is between 0 and e_0, where g falls; above: g <= (1 - q + q e)^a <= e^a (q + (1 - q) / e_n)^a
    left = float(log_ndtr(-_REACH)) + float(_log_convex(rate, order, np.zeros(1))[0])
    right = order * (order - 1) * mu * mu / 2 + float(log_ndtr(order * mu - high))
    right += order * math.log(rate + (1 - rate) / float(e[-1]))
    every = np.append(inside, [left, right])
    if not math.isfinite(float(top := np.max(every))):
        return math.inf
    return _log1p_exp(float(top) + math.log(float(np.sum(np.exp(every - top)))) + 1e-9)


def _log1p_exp(value: float) -> float:
    return math.log1p(math.exp(value)) if value < 30 else value + math.exp(-value)


def _log_convex(rate: float, order: float, e: Array) -> Array:
    """log g(e) from above; where q (e - 1) is small, by a series that lacks the large common part."""
    x = rate * (e - 1)
    power = order * np.log1p(x)
    with np.errstate(over="ignore"):
        moderate = np.expm1(np.minimum(power, 600.0))
        exact = moderate - order * x + 8 * EPS * (np.abs(moderate) + order * np.abs(x) + 1 + order)
    # (1 + x)^a - 1 - a x is the sum over k >= 2 of C(a, k) x^k. For |x| max(a, 2) < 0.02 each term is below 2 % of
    # the one before it, so what is left after the eighth is below a twenty-fifth of its size.
    near = np.clip(x, -0.01, 0.01)
    term, total, size = order * near, np.zeros_like(x), np.zeros_like(x)
    for k in range(2, 9):
        term = term * near * ((order - k + 1) / k)
        total, size = total + term, size + np.abs(term)
    series = total + 16 * EPS * size + np.abs(term) / 25
    found = np.where(np.abs(x) * max(order, 2.0) < 0.02, series, exact)
    with np.errstate(divide="ignore"):
        logs: Array = np.where(power > 500, power * (1 + 4 * EPS), np.log(np.maximum(found, 0.0) * (1 + 4 * EPS)))
    return logs


def _log_between(z: Array) -> Array:
    """Logarithms of the normal mass between neighbours of `z`, from the tail that is nearer."""
    far = np.where(z[:-1] > 0, log_ndtr(-z[:-1]), log_ndtr(z[1:]))
    near = np.where(z[:-1] > 0, log_ndtr(-z[1:]), log_ndtr(z[:-1]))
    found: Array = far + np.log(-np.expm1(near - far))
    return found
