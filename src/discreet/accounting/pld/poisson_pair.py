"""The worst-case pair of one Poisson-sampled Gaussian release, cut into bins of equal privacy loss.

With noise multiplier s and rate q the dominating pair of distributions is (Zhu, Dong, Wang 2022, "Optimal
accounting of differential privacy via characteristic function", Theorem 11 and Proposition 30)

    removal    P = (1 - q) N(0, s^2) + q N(1, s^2)   against   Q = N(0, s^2)
    addition   the same two, exchanged

and the privacy loss of an outcome x is log P(x)/Q(x): for removal the increasing function
l(x) = log(1 - q + q exp((2x - 1) / (2 s^2))), for addition its negative. The two directions are composed
separately. `q = 1` is the Gaussian mechanism without sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri_exp

from discreet.core.array_types import Array

UNIT_ROUNDOFF = 2.0**-53

LEAST_NOISE = 1e-7
"""Below this noise, rounding alone may move the loss of one release by about 1 (`Pair.loss_rounding`)."""


class Direction(Enum):
    """Which neighbour outcomes are drawn from: with the unit (removal) or without it (addition)."""

    REMOVAL = "removal"
    ADDITION = "addition"


@dataclass(frozen=True, slots=True)
class Pair:
    """Poisson-sampled Gaussian releases: `rate` in (0, 1], `noise` = effective noise multiplier.

    Composition on a grid needs from a dominating pair its loss at an outcome, a range that holds all but a given mass,
    the masses of P and Q between two losses (`bins`), and bounds on the rounding of loss and masses.

    `rate` and `noise` are numbers for one release, or arrays of shape (k, 1) for k releases at once; then all results
    get a leading axis of length k.
    """

    rate: float | Array
    noise: float | Array
    direction: Direction
    NUMBERS: ClassVar[tuple[str, ...]] = ("rate", "noise")
    """The fields that are arrays for several releases at once."""

    def ends(self, tail: float) -> Array:
        """The losses at the ends of `support`."""
        return self.loss(self.support(tail))

    def loss(self, x: Array) -> Array:
        """Privacy loss of the outcomes `x` in this direction."""
        removal = self.removal_loss(x)
        return removal if self.direction is Direction.REMOVAL else -removal

    def removal_loss(self, x: Array) -> Array:
        """log(1 - q + q exp((2x - 1) / (2 s^2)))."""
        exponent = (2 * x - 1) / (2 * self.noise**2)
        with np.errstate(divide="ignore"):
            removal: Array = np.logaddexp(np.log1p(-np.asarray(self.rate)), np.log(self.rate) + exponent)
        return removal

    def support(self, tail: float) -> Array:
        """Outcomes (low, high) outside which P and Q have at most about `tail` mass on each side; shape (..., 2)."""
        reach = -float(ndtri_exp(math.log(tail))) * np.asarray(self.noise)
        return np.concatenate([np.atleast_1d(-reach), np.atleast_1d(1 + reach)], axis=-1)

    def loss_rounding(self, largest: float) -> Array:
        """The most by which rounding may move the loss at a bin edge, for losses up to `largest` in size.

        The terms of `outcome` carry errors of a few roundings of |l|, |log q| and (through the final sum)
        of x / s^2 <= |l| + |log q| + 1 / s^2; the slope dl/dx is at most 1 / s^2, so s cancels.
        """
        reach = 1 + largest - np.log(np.asarray(self.rate)) + np.asarray(self.noise) ** -2.0
        return np.asarray(64 * UNIT_ROUNDOFF * reach)

    def bins(self, edges: Array) -> Bins:
        """Masses of P and Q between consecutive loss `edges`: see the function `bins`."""
        return bins(self, edges)

    def quadrature(self, tail: float) -> tuple[Array, Array]:
        """Losses and log-masses under P, of one release, on outcomes a tenth of a standard deviation apart."""
        low, high = self.support(tail)
        if low > -0.5:  # so little noise that the mass between the two means is negligible
            near = np.linspace(low, -low, int(-20 * low / self.noise) + 2)
            x = np.concatenate((near, 1 + near))
        else:
            x = np.linspace(low, high, int((high - low) / (0.1 * self.noise)) + 2)
        loss = self.loss(x)
        log_p = -0.5 * (x / self.noise) ** 2 + (loss if self.direction is Direction.REMOVAL else 0.0)
        top = log_p.max()
        return loss, log_p - top - math.log(float(np.exp(log_p - top).sum()))


@dataclass(frozen=True, slots=True)
class Bins:
    """P- and Q-mass of the bins between consecutive loss edges, each with a bound on its rounding error.

    Bin i holds losses in (edges[i], edges[i + 1]]; `below` and `above` bound the P-mass outside all bins.
    """

    p: Array
    q: Array
    p_error: Array
    q_error: Array
    below: Array
    above: Array


def bins(pair: Pair, edges: Array) -> Bins:
    """Masses of P and Q between consecutive loss `edges` (increasing along the last axis, of length n + 1).

    Mapping an edge to an outcome rounds, which moves the edge by a few roundings of the loss; callers cover
    that with `Pair.loss_rounding`. The errors bounded here are those of the masses: a tail
    probability Phi(z) carries a relative error of a few (1 + z^2) roundings (from the argument of erfc), and a
    difference of two inherits the absolute error of the larger.
    """
    flip = pair.direction is Direction.ADDITION
    x = outcome(pair, -edges[..., ::-1] if flip else edges)
    null, null_error = gaussian_masses(x / pair.noise)
    shifted, shifted_error = gaussian_masses((x - 1) / pair.noise)
    mixed = (1 - pair.rate) * null + pair.rate * shifted
    mixed_error = (1 - pair.rate) * null_error + pair.rate * shifted_error + 4 * UNIT_ROUNDOFF * mixed
    if flip:
        p, p_error, q, q_error = (array[..., ::-1] for array in (null, null_error, mixed, mixed_error))
    else:
        p, p_error, q, q_error = mixed, mixed_error, null, null_error
    inner = (..., slice(1, -1))
    below, above = p[..., 0] + p_error[..., 0], p[..., -1] + p_error[..., -1]
    return Bins(p[inner], q[inner], p_error[inner], q_error[inner], below, above)


def outcome(pair: Pair, edges: Array) -> Array:
    """Invert the removal loss: x = s^2 (l - log q + log(1 - e^-t)) + 1/2 with t = l - log(1 - q).

    Minus infinity where t <= 0, below the range of the loss. Written so that nothing cancels near either end.
    """
    with np.errstate(divide="ignore"):
        floor = np.log1p(-np.asarray(pair.rate))
        log_term = np.log(-np.expm1(-np.maximum(edges - floor, 0.0)))
    result: Array = pair.noise**2 * (edges - np.log(pair.rate) + log_term) + 0.5
    return result


def gaussian_masses(z: Array) -> tuple[Array, Array]:
    """Standard normal mass of the intervals (-inf, z0], (z0, z1], ..., (zn, inf) and bounds on the error."""
    end = np.full((*z.shape[:-1], 1), np.inf)
    left, right = np.concatenate((-end, z), axis=-1), np.concatenate((z, end), axis=-1)
    upper_half = left > 0
    big = ndtr(np.where(upper_half, -left, right))
    small = ndtr(np.where(upper_half, -right, left))
    reach = np.minimum(np.where(upper_half, left, right) ** 2, 2000.0)
    error = (32 + 8 * reach) * UNIT_ROUNDOFF * big + 1e-300
    return np.maximum(big - small, 0.0), error
