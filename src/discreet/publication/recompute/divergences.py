"""Rényi divergences of the parts of a certificate, from above: what a filter adds up.

One step tells neighbours apart like N = N(0, 1) from M = (1 - q) N + q N(mu, 1), e(z) = exp(mu z - mu^2 / 2). At an
order a > 1 it costs log E_N[(1 - q + q e)^a] / (a - 1), in either direction (Mironov, Talwar and Zhang 2019, theorem
5); costs of steps add up. E_N[e] = 1, so E_N[(1 - q + q e)^a] = 1 + E_N[g(e)], g(e) = (1 - q + q e)^a - 1 - a q (e - 1)
>= 0, which is convex:
  whole a: a sum of positive terms, since E_N[e^k] = exp(k (k - 1) mu^2 / 2);
  other a: each bin of z is moved to its ends with the mass and the mean of e kept. By Jensen that can only add.
Not sampled, q = 1: a mu^2 / 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr

from discreet.publication.recompute.losses import EPS, MU_ERROR, Array
from discreet.publication.recompute.parts import Part

OUTWARD = 1 + 1e-11
"""Covers the rounding of sums of positive terms, each known to about 1e-13 of itself."""

_WIDTH = 1e-3
"""Of the bins, in deviations and relative to e: Jensen's step adds about a sixth of the square."""

_REACH = 20.0
"""Deviations before the tails, which are bounded by themselves."""

_FARTHEST = 37.0
"""Beyond this many deviations normal masses underflow."""


def renyi(parts: Sequence[Part], order: float) -> float:
    """The divergence at `order` of all parts together, at most; infinite where it cannot be had."""
    try:
        return math.fsum(part.count * _one(part, order) for part in parts) * OUTWARD
    except (ArithmeticError, ValueError):
        return math.inf


def _one(part: Part, order: float) -> float:
    mu = part.mu * (1 + MU_ERROR)
    if part.rate == 1:
        return order * mu * mu / 2 * OUTWARD
    if order == int(order):
        return _whole(part.rate, mu, int(order)) / (order - 1) * OUTWARD
    high = order * mu + _REACH
    if high <= _FARTHEST:
        return math.log1p(_other(part.rate, mu, order, high)) / (order - 1) * OUTWARD
    low = math.floor(order)  # log-moments are convex in the order: between whole orders the chord lies above
    ends = _whole(part.rate, mu, low) if low > 1 else 0.0, _whole(part.rate, mu, low + 1)
    return ((low + 1 - order) * ends[0] + (order - low) * ends[1]) / (order - 1) * OUTWARD


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
    return math.log1p(math.exp(log_gain)) if log_gain < 30 else log_gain + math.exp(-log_gain)


def _other(rate: float, mu: float, order: float, high: float) -> float:
    """E[g] over bins of z from -20 to a mu + 20, and both tails."""
    z = np.linspace(-_REACH, high, math.ceil((high + _REACH) * max(1.0, mu) / _WIDTH) + 1)
    e = np.exp(mu * z - mu * mu / 2)
    mass, mean = _between(z), _between(z - mu)
    rise = np.maximum(mean - e[:-1] * mass, 0.0) + 64 * EPS * (mean + e[:-1] * mass)  # E[e - e_i; bin]
    fall = np.maximum(e[1:] * mass - mean, 0.0) + 64 * EPS * (mean + e[1:] * mass)  # E[e_{i+1} - e; bin]
    value = _convex(rate, order, e)
    inside = float(np.sum((fall * value[:-1] + rise * value[1:]) / np.diff(e)))
    # below: e is between 0 and e_0, where g falls; above: g <= (1 - q + q e)^a <= e^a for e >= 1
    left = float(ndtr(-_REACH)) * float(_convex(rate, order, np.zeros(1))[0])
    right = math.exp(order * (order - 1) * mu * mu / 2 + float(log_ndtr(order * mu - high)))
    return (inside + left + right) * (1 + 1e-9)


def _convex(rate: float, order: float, e: Array) -> Array:
    """g(e) from above, its large common part cancelled by a series where q (e - 1) is small."""
    x = rate * (e - 1)
    exact = np.expm1(order * np.log1p(x)) - order * x
    exact += 8 * EPS * (np.abs(np.expm1(order * np.log1p(x))) + order * np.abs(x) + (1 + order))
    # (1 + x)^a - 1 - a x = sum over k >= 2 of C(a, k) x^k; after the sixth term what is left is below the seventh's
    # size times 1 / (1 - |x|) for orders of at most about 1 / |x|
    small = np.zeros_like(x)
    coefficient, power, total = order, x.copy(), np.zeros_like(x)
    for k in range(2, 9):
        coefficient *= (order - k + 1) / k
        power = power * x
        total += coefficient * power
        small += abs(coefficient) * np.abs(power) * 4 * EPS
    rest = abs(coefficient) * np.abs(power) * np.abs(x) * max(order, 1.0) * 2
    series = total + small + rest
    result: Array = np.maximum(np.where(np.abs(x) * max(order, 2.0) < 0.02, series, exact), 0.0)
    return result


def _between(z: Array) -> Array:
    """Normal mass between neighbours of `z`, from the tail that is nearer: small masses keep their digits."""
    upper, lower = ndtr(-z), ndtr(z)
    found: Array = np.where(z[:-1] > 0, upper[:-1] - upper[1:], lower[1:] - lower[:-1])
    return found
