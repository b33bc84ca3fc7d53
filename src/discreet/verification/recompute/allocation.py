"""The privacy loss of a period in which a unit takes part in one of m steps, at random, put on a grid from above.

In units of the noise deviation, let Y_1, ..., Y_m be independent copies of exp(mu z - mu^2 / 2), z standard normal,
and Y their mean: the ratio of the density of a period's releases with the unit to that without it. Its deltas are E
(Y - c)+ if the unit is removed and E (1 - c Y)+ if it is added, c = exp(epsilon): means of convex functions, one
increasing and one decreasing. (Steps that depend on earlier ones are covered: given the past, the ratio of a step is
exp(s z - s^2 / 2) with some s <= mu, which is smaller in the convex order; replace the last step's by an independent
copy of Y_m, then the one before, and so on.) So each mean of two independent variables may be put on a grid by
spreading its mass to both neighbours, its mean kept (Jensen), and moved up for removal, down for addition. What lies
beyond the grid goes to infinity or to the end, and to the beginning or to zero.

`chosen` of t steps are at most `chosen` periods of floor(t / chosen) steps: reveal a random partition into blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr

from discreet.verification.recompute.events import Part
from discreet.verification.recompute.log_sums import log_sums
from discreet.verification.recompute.poisson_loss import EPS, MU_ERROR, Array, Loss

_ROWS = 2**20
"""Pairs at a time."""

_POINTS = 3000
"""The most points of the grid of a single step; beyond, it is coarser."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Mass at exp((first + i) width), at 0, and what of the mean is at infinity."""

    width: float
    first: int
    mass: Array
    zero: float
    infinite: float

    @property
    def points(self) -> Array:
        found: Array = np.exp((self.first + np.arange(len(self.mass))) * self.width)
        return found


def above(part: Part, h: float, tail: float, removal: bool) -> Loss:
    """A grid loss whose composition has a delta of at least that of `part`; about `tail` of a period is cut off."""
    mu = part.mu * (1 + MU_ERROR)
    found = _mean(part.steps, mu, h, tail / (4 * part.steps), removal)
    slip = 64 * EPS * (8 + abs(found.first * h) + len(found.mass) * h + mu * mu)
    if removal:
        return Loss(found.first, found.mass * found.points * (1 + 16 * EPS), found.infinite, slip)
    return Loss(1 - found.first - len(found.mass), found.mass[::-1], found.zero, slip)


def log_moment(part: Part, orders: Array, tail: float, removal: bool) -> Array:
    """ln E exp(order L) on a coarse grid: a guide for choices, not part of any bound."""
    t, log_mass = _sketch(part, tail, removal)
    return log_sums(np.multiply.outer(orders, t) + log_mass)


@lru_cache(maxsize=64)
def _sketch(part: Part, tail: float, removal: bool) -> tuple[Array, Array]:
    """Losses of a period and the logarithms of their masses, on a coarse grid."""
    h = coarse(part)
    loss = above(part, h, tail, removal)
    with np.errstate(divide="ignore"):
        log_mass: Array = np.log(loss.mass)
    return np.asarray((loss.first + np.arange(len(loss.mass))) * h, dtype=np.float64), log_mass


def loss_range(part: Part, reach: float) -> tuple[float, float]:
    """Losses beyond which there is next to nothing."""
    high = part.mu * (part.mu / 2 + reach)
    return -min(high + part.mu**2, 40.0), math.log1p(math.exp(min(high, 700.0)) / part.steps)


def coarse(part: Part) -> float:
    """A grid step that shows the loss of a period: an eighth of its deviation."""
    return min(0.1, math.sqrt(math.log1p(math.expm1(min(part.mu**2, 700.0)) / part.steps)) / 8)


def _mean(steps: int, mu: float, h: float, tail: float, removal: bool) -> Mean:
    span = 2 * mu * (math.sqrt(-2 * math.log(tail)) + mu / 2)
    one = _single(mu, h * 2 ** max(0, math.ceil(math.log2(span / (h * _POINTS)))), tail, removal)
    known = {1: one}

    def of(count: int) -> Mean:
        if count not in known:
            small, large = of(count // 2), of(count - count // 2)
            width = min(small.width, large.width)
            found = _of_two(_finer(small, width), _finer(large, width), (count // 2) / count, removal)
            found = _cut(found, tail * count, removal)
            while found.width > h and 2 * len(found.mass) <= _POINTS:
                found = _finer(found, found.width / 2)
            known[count] = found
        return known[count]

    return _finer(of(steps), h)


def _single(mu: float, width: float, tail: float, removal: bool) -> Mean:
    """One step: exp(mu z - mu^2 / 2), the mean of a cell being the normal mass that it has around mu instead of 0."""
    reach = math.sqrt(-2 * math.log(tail))
    first, last = math.floor(-mu * (reach + mu / 2) / width), math.ceil(mu * (reach + mu / 2) / width)
    t = np.arange(first, last + 1) * width
    z = np.asarray(t / mu + mu / 2, dtype=np.float64)
    mass, mass_error = _between(z)
    mean, mean_error = (part * np.exp(-t[:-1]) for part in _between(z - mu))
    mean_error = mean_error + 16 * EPS * (4 + np.abs(t[:-1])) * mean + mass_error * math.exp(width)
    mass = _spread(mass + mass_error, mean, mean_error, width, removal)
    below, beyond = float(ndtr(z[0])) * (1 + 1e-9), float(ndtr(-z[-1])) * (1 + 1e-9)
    mass[-1] += beyond
    if removal:
        mass[0] += below
        return Mean(width, first, mass, 0.0, float(ndtr(mu - z[-1])) * (1 + 1e-9))
    return Mean(width, first, mass, below, 0.0)


def _between(z: Array) -> tuple[Array, Array]:
    """The normal mass between neighbours, from the nearer tail, and a bound on its rounding."""
    tails, upper = ndtr(-np.abs(z)), z[:-1] >= 0
    across = (z[:-1] < 0) & (z[1:] > 0)
    mass = np.where(across, 1 - tails[:-1] - tails[1:], np.where(upper, tails[:-1] - tails[1:], tails[1:] - tails[:-1]))
    error = 16 * EPS * (4 + z * z) * tails
    return np.maximum(mass, 0.0), error[:-1] + error[1:] + 4 * EPS * across


def _spread(mass: Array, mean: Array, error: Array, width: float, removal: bool) -> Array:
    """The mass of cells on their ends. `mean`: mass times mean, in units of the lower end, up to `error`."""
    up = np.clip((mean - mass + (error if removal else -error)) / math.expm1(width), 0.0, mass)
    result: Array = np.append(mass - up, 0.0) + np.append(0.0, up)
    return result


def _of_two(one: Mean, other: Mean, weight: float, removal: bool) -> Mean:
    """weight x one + (1 - weight) x other, of independent variables on one grid."""
    width, rows, columns = one.width, len(one.mass), len(other.mass)
    # weight g_i + (1 - weight) g_j = g_i x (weight + (1 - weight) exp((j - i) width)), on the grid for each j - i
    apart = np.arange(1 - rows, columns) + other.first - one.first
    value = np.logaddexp(math.log(weight), math.log1p(-weight) + apart * width)
    place = np.floor(value / width).astype(np.int64)
    ratio = np.exp(value - place * width)
    first = one.first + int(place.min())
    size = max(one.first + rows, other.first + columns) + 2 - first  # a mean is at most the larger
    mass, mean = np.zeros(size), np.zeros(size)
    places, ratios = (sliding_window_view(of, columns)[::-1] for of in (place, ratio))  # a row for each point of one's
    step, own = max(1, _ROWS // columns), (np.arange(rows) + one.first - first)[:, np.newaxis]
    for start in range(0, rows, step):
        these = slice(start, start + step)
        at = (places[these] + own[these]).ravel()
        weighed = np.multiply.outer(one.mass[these], other.mass)
        mass += np.bincount(at, weighed.ravel(), size)
        weighed *= ratios[these]
        mean += np.bincount(at, weighed.ravel(), size)
    rounding = EPS * (rows * columns + 32 * (2 + width * float(np.abs(place).max())))
    mass *= 1 + rounding
    spread = _spread(mass[:-1], mean[:-1], 4 * rounding * mass[:-1] * math.exp(width), width, removal)
    infinite = (weight * one.infinite + (1 - weight) * other.infinite) * (1 + 8 * EPS)
    return Mean(width, first, spread, (one.zero + other.zero) * (1 + 8 * EPS), infinite)


def _finer(one: Mean, width: float) -> Mean:
    """The same on a grid with half the width, or a quarter, ..."""
    while one.width > width:
        mass = np.zeros(2 * len(one.mass) - 1)
        mass[::2] = one.mass
        one = Mean(one.width / 2, 2 * one.first, mass, one.zero, one.infinite)
    return one


def _cut(one: Mean, tail: float, removal: bool) -> Mean:
    """Without ends of less than `tail`: to the first point and to infinity, or to zero and to the last point."""
    ends = one.mass * (one.points if removal else 1.0)
    low = int(np.searchsorted(np.cumsum(one.mass), tail))
    high = len(one.mass) - int(np.searchsorted(np.cumsum(ends[::-1]), tail))
    if high - low < 2:
        return one
    if not math.isfinite(float(ends.sum())):
        raise OverflowError("ratios of densities beyond the range of numbers")
    mass, below, beyond = one.mass[low:high].copy(), float(one.mass[:low].sum()), float(one.mass[high:].sum())
    mass[-1] += beyond * (1 + 1e-9)
    found = replace(one, first=one.first + low, mass=mass)
    if removal:
        mass[0] += below * (1 + 1e-9)
        return replace(found, infinite=one.infinite + float(ends[high:].sum()) * (1 + 1e-9))
    return replace(found, zero=one.zero + below * (1 + 1e-9))
