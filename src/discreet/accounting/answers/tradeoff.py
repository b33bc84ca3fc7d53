"""Trade-off functions: what the best test for one unit achieves at every false positive rate.

f(a) is the least false negative rate of any test with false positive rate a (Dong, Roth, Su 2022, Definition 2.1). It
is equivalent to the whole profile delta(epsilon): f is the largest of the lines

    1 - delta(eps) - e^eps a    and    e^-eps (1 - delta(eps) - a)

(their Proposition 2.12); delta(eps) is the largest 1 - f(a) - e^eps a. With delta the larger of both directions, f is
the symmetric convex envelope min{f, f^-1}** of Bu, Dong, Long, Su 2020, section 2.2. Bounds are directed: `lower` is
never above f, `upper` is never below f, and no attack on the plan beats 1 - `lower`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.accounting.pld.delta_profile import chord
from discreet.accounting.theories import gdp
from discreet.core import checks
from discreet.core.array_types import Array
from discreet.core.errors import InputError

_UP, _DOWN = 1 + 2.0**-44, 1 - 2.0**-44
_LARGEST = 700.0
"""Beyond this epsilon the exponential overflows, and nobody is protected."""

_RAREST = 1e-300
"""No test is claimed to have a smaller false positive rate: a rate that underflows is no 0."""

_BLOCK = 256
_LINKS = 256


class TradeOff(Protocol):
    """Bounds on a trade-off function. Arrays in, arrays of the same shape out. `InputError` for rates outside of [0, 1]
    and for epsilons below 0, at which delta is more than these bounds say."""

    def lower(self, false_positives: Array) -> Array:
        """Lower bounds on f at rates in [0, 1], proved for every attack."""

    def power(self, false_positives: Array) -> Array:
        """The largest true positive rates: 1 - `lower`, without its rounding near 0."""

    def upper(self, false_positives: Array) -> Array:
        """Upper bounds on f: an attack on worst-case data reaches them. 1 - a where no attack is known."""

    def delta(self, epsilons: Array) -> Array:
        """Upper bounds on delta at epsilons of at least 0."""

    def delta_lower(self, epsilons: Array) -> Array:
        """Lower bounds on delta at epsilons of at least 0."""

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up, whose delta is at most `delta`; infinite if there is none."""

    @property
    def advantage(self) -> float:
        """An upper bound on the largest 1 - a - f(a), which is delta(0)."""

    @property
    def lines(self) -> tuple[Array, Array]:
        """(s, c) of the bounds c + e^s a on the true positive rate that make up `lower`, ascending in s."""

    def group(self, size: int) -> TradeOff:
        """The bounds for groups of `size` units."""

    def loosened(self, failure: float, escapes: float = 0.0) -> TradeOff:
        """The bounds if these fail with probability at most `failure` on either side, and `escapes` adds to delta."""


def _rates(given: Array) -> Array:
    rates = np.asarray(given, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InputError("false positive rates must be from 0 to 1: one of 5 % is 0.05")
    return rates


def _epsilons(given: Array) -> Array:
    epsilons = np.asarray(given, dtype=np.float64)
    if not (epsilons >= 0).all():
        raise InputError("epsilons must be at least 0")
    return epsilons


@dataclass(frozen=True, slots=True)
class GaussianTradeOff:
    """G_mu, exactly: Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2022, Definition 2.6)."""

    mu: float

    def lower(self, false_positives: Array) -> Array:
        result: Array = ndtr(-ndtri(_rates(false_positives)) - self.mu) * _DOWN**8
        return np.where(np.asarray(false_positives) >= 1, 0.0, result)

    def power(self, false_positives: Array) -> Array:
        result: Array = ndtr(ndtri(_rates(false_positives)) + self.mu) * _UP**8 + 1e-300
        return np.where(np.asarray(false_positives) <= 0, 0.0, np.minimum(result, 1.0))

    def upper(self, false_positives: Array) -> Array:
        result: Array = ndtr(-ndtri(_rates(false_positives)) - self.mu * _DOWN) * _UP**8 + 1e-300
        return np.minimum(np.where(np.asarray(false_positives) <= 0, 1.0, result), 1 - np.asarray(false_positives))

    def delta(self, epsilons: Array) -> Array:
        return self._bounds(self.mu, epsilons, 1)

    def delta_lower(self, epsilons: Array) -> Array:
        return self._bounds(self.mu * _DOWN, epsilons, 0)

    def epsilon(self, delta: float) -> float:
        return gdp.epsilon_bounds(self.mu, delta)[1] if self.mu > 0 else 0.0

    @property
    def advantage(self) -> float:
        return float(self.delta(np.zeros(1))[0])

    @property
    def lines(self) -> tuple[Array, Array]:
        return self.polygon().lines

    def group(self, size: int) -> GaussianTradeOff:
        """Exact: k mu (Dong, Roth, Su 2022, section 2.4)."""
        return GaussianTradeOff(self.mu * min(checks.count("group", size), 10**300) * _UP)

    def loosened(self, failure: float, escapes: float = 0.0) -> TradeOff:
        return self if failure == escapes == 0 else self.polygon().loosened(failure, escapes)

    def polygon(self) -> PolygonalTradeOff:
        """The same curve from finitely many points, rounded outward."""
        epsilons = np.linspace(0, min(self.mu**2 / 2 + 10 * self.mu + 1e-9, _LARGEST), 1500)
        wrong = ndtr(np.linspace(-12.0, 12.0, 1500) - self.mu / 2)
        return polygonal(epsilons, self.delta(epsilons), wrong, 1 - self.upper(wrong) - 2.0**-50)  # not rounded up to 1

    @staticmethod
    def _bounds(mu: float, epsilons: Array, side: int) -> Array:
        epsilons = _epsilons(epsilons)
        if not mu > 0:
            return np.zeros(np.shape(epsilons))
        found = [gdp.delta_bounds(mu, float(epsilon))[side] for epsilon in np.ravel(epsilons)]
        return np.reshape(np.array(found), np.shape(epsilons))


@dataclass(frozen=True, slots=True)
class PolygonalTradeOff:
    """Bounds from finitely many facts, each array of shape (n,).

    delta(`epsilons[i]`) <= `deltas[i]`, epsilons ascending from 0, deltas not rising. Tests exist with the rates
    `false_positives[j]` and `false_negatives[j]`, which lie on a convex falling line from (0, 1) to (1, 0).
    """

    epsilons: Array
    deltas: Array
    false_positives: Array
    false_negatives: Array

    def lower(self, false_positives: Array) -> Array:
        result: Array = np.maximum(1 - self.power(false_positives) - 2.0**-52, 0.0)
        return result

    def power(self, false_positives: Array) -> Array:
        shares = np.ravel(_rates(false_positives))
        slopes, constants = self.lines
        best = np.empty(len(shares))
        for start in range(0, len(shares), _BLOCK):
            block = shares[start : start + _BLOCK, np.newaxis]
            best[start : start + _BLOCK] = np.min(constants + np.exp(slopes) * block, axis=1)
        return np.reshape(np.minimum(best * _UP, 1.0), np.shape(false_positives))

    def upper(self, false_positives: Array) -> Array:
        result: Array = np.interp(_rates(false_positives), self.false_positives, self.false_negatives) * _UP + 2.0**-50
        return np.minimum(result, 1 - np.asarray(false_positives))

    def delta(self, epsilons: Array) -> Array:
        return chord(self.epsilons, self.deltas, _epsilons(epsilons))

    def delta_lower(self, epsilons: Array) -> Array:
        flat = np.ravel(_epsilons(epsilons))
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.exp(flat)[:, np.newaxis] * self.false_positives
            gains = 1 - self.false_negatives - np.where(self.false_positives > 0, lost, 0.0)
        result: Array = np.maximum(np.max(gains * _DOWN, axis=1) - 2.0**-48, 0.0)
        return np.reshape(result, np.shape(epsilons))

    def epsilon(self, delta: float) -> float:
        fits = np.flatnonzero(self.deltas <= delta)
        if len(fits) == 0:
            return math.inf
        right, left = int(fits[0]), max(0, int(fits[0]) - 1)
        start, end = float(self.epsilons[left]), float(self.epsilons[right])
        if right == left or not end - start < _LARGEST:
            return end
        share = float((self.deltas[left] - delta) / (self.deltas[left] - self.deltas[right]))
        return min(end, (start + math.log1p(share * math.expm1(end - start))) * _UP)

    @property
    def advantage(self) -> float:
        return float(self.deltas[0])

    @property
    def lines(self) -> tuple[Array, Array]:
        usable = self.epsilons <= _LARGEST
        epsilons, deltas = self.epsilons[usable], self.deltas[usable]
        constants = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
        return np.concatenate((-epsilons[:0:-1], epsilons)), np.concatenate((constants[:0:-1] * _UP, deltas))

    def group(self, size: int) -> PolygonalTradeOff:
        """1 - (1 - f) composed `size` times (Dong, Roth, Su 2022, Theorem 2.14).

        A chain of lines t <- c + e^s t is a line again, so each chain bounds delta at the sum of its s. The chains used
        are the least ones at about 1500 rates. Tests for one unit are tests for a group too. A large group is a group
        of groups, with a few more units than `size`.
        """
        size = checks.count("group", size)
        block = -(-size // _LINKS)
        slopes, constants = (self if block == 1 else self.group(block)).lines
        growths, constants = lower_hull(np.exp(slopes), constants)  # the lines that count
        slopes, crossings = np.log(growths), -np.diff(constants) / np.diff(growths)
        share = np.unique(np.concatenate((np.clip(crossings, 0.0, 1.0), np.logspace(-18, 0, 400))))
        total, constant = np.zeros(len(share)), np.zeros(len(share))
        for _ in range(-(-size // block)):
            best = np.concatenate(
                [
                    np.argmin(constants + growths * share[start : start + _BLOCK, np.newaxis], axis=1)
                    for start in range(0, len(share), _BLOCK)
                ]
            )
            growth = growths[best]
            share = np.minimum(constants[best] + growth * share, 1.0)
            constant = np.minimum((constants[best] + growth * constant) * _UP, 1.0)
            total = total + slopes[best]
            useful = (share < 1) | (total >= 0)  # at true positive rate 1, slopes only fall
            share, total, constant = share[useful], total[useful], constant[useful]
            if not len(share):
                break
        kept = total >= 0
        found = from_pairs(np.append(total[kept], 0.0), np.append(constant[kept], 1.0))
        return PolygonalTradeOff(found.epsilons, found.deltas, self.false_positives, self.false_negatives)

    def loosened(self, failure: float, escapes: float = 0.0) -> PolygonalTradeOff:
        """delta(eps) + (1 + e^eps) x failure + escapes (`theories.sparse`) at every epsilon."""
        if failure == escapes == 0:
            return self
        with np.errstate(over="ignore"):
            failing = (1 + np.exp(self.epsilons)) * (failure * _UP) if failure != 0 else 0.0  # inf x 0 is no bound
            raised = (self.deltas + failing + escapes) * _UP
        deltas = np.minimum.accumulate(np.where(raised <= 1, raised, 1.0))  # NaN becomes 1
        return PolygonalTradeOff(self.epsilons, deltas, self.false_positives, self.false_negatives)


def from_mu(mu: float) -> TradeOff:
    """The trade-off function of mu-Gaussian differential privacy."""
    mu = checks.real("mu", mu)
    if not mu >= 0:
        raise InputError(f"mu must be at least 0, got {mu!r}")
    return GaussianTradeOff(mu) if mu < 1e6 else from_pairs(np.zeros(1), np.ones(1))


def from_pairs(epsilons: Array, deltas: Array) -> PolygonalTradeOff:
    """The curve that some (epsilon, delta), in any order, prove together: the largest of their trade-off functions."""
    epsilons, deltas = np.asarray(epsilons, dtype=np.float64), np.asarray(deltas, dtype=np.float64)
    if not (len(epsilons) and np.all(epsilons >= 0)):
        raise InputError("at least one epsilon of at least 0 is needed")
    deltas = np.where(deltas >= 0, np.minimum(deltas, 1.0), 1.0)  # NaN becomes 1
    small = np.exp(-epsilons)
    at_zero = np.min((2 * deltas * small - np.expm1(-epsilons)) / (1 + small)) * _UP
    order = np.lexsort((deltas, epsilons))
    epsilons = np.concatenate(([0.0], epsilons[order], [np.max(epsilons) + 1]))
    deltas = np.concatenate(([min(1.0, at_zero)], deltas[order], [1.0]))
    epsilons, first = np.unique(epsilons, return_index=True)
    falling = np.minimum.accumulate(deltas[first])
    return polygonal(epsilons, falling, np.zeros(0), np.zeros(0))


def polygonal(epsilons: Array, deltas: Array, wrong: Array, right: Array) -> PolygonalTradeOff:
    """A curve whose tests are the hull of those with `wrong` false and `right` true positives and of their mirrors."""
    wrong = np.maximum(wrong, _RAREST)
    useful = (right > wrong) & (wrong < 1)
    wrong, right = wrong[useful], right[useful]
    x = np.concatenate(([0.0, 1.0], wrong, 1 - right))
    y = np.concatenate(([1.0, 0.0], 1 - right, wrong))
    x, y = lower_hull(x, y)
    return PolygonalTradeOff(epsilons, deltas, x, y)


def lower_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The lower convex hull, ascending in x, by Andrew's monotone chain."""
    hull: list[tuple[float, float]] = []
    for px, py in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (bx - ax) * (py - ay) > (by - ay) * (px - ax):
                break
            hull.pop()
        hull.append((px, py))
    points = np.array(hull)
    return points[:, 0], points[:, 1]
