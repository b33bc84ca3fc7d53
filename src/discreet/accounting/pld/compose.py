"""The distribution of a sum of many independent grid losses, by Fourier transform, with every error bounded.

The masses are first tilted: p_j becomes p_j e^(lambda l_j) / M(lambda). A delta in the far tail is the bulk of a tilted
distribution, so absolute errors of the transform become errors relative to that delta. Tilting a sum of independent
losses tilts each of them, hence

    delta(eps) = M e^(-lambda eps) E_tilted[e^(-lambda (L - eps)) (1 - e^(eps - L))_+]
    log M = sum of counts x log M_i.

Distinct parts become a product of spectra, each raised to its count. Indices are kept modulo the length of the
transform; mass outside the window wraps into it, and Chernoff's inequality bounds that mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.discretise import LossPmf
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.accounting.pld.spectrum import Factor, convolve
from discreet.accounting.pld.window import Window
from discreet.core.array_types import Array


@dataclass(frozen=True, slots=True)
class Composition:
    """Tilted masses of a composed loss: `tilted[j]` at loss `(first + j) * grid + offset`, with bounds on the errors.

    `error` bounds the L2 norm of the rounding error of `tilted`; `wrapped` the tilted mass that wrapped in from
    outside; `dropped` the (untilted) mass above the window; `slack` the shift of the loss by rounded bin edges.
    """

    grid: float
    first: int
    offset: float
    tilted: Array
    order: float
    log_mgf: float
    infinity: float
    dropped: float
    wrapped: float
    error: float
    slack: float

    @property
    def losses(self) -> Array:
        """The grid points, shape (len(tilted),)."""
        result: Array = np.arange(self.first, self.first + len(self.tilted)) * self.grid + self.offset
        return result


def compose(parts: Sequence[tuple[LossPmf, int | Array]], window: Window, *, up: bool) -> Composition:
    """Compose `count` copies of each part; a part of several releases has an array of counts.

    All parts share one grid; `up` rounds up, else results are rounded down.
    """
    grid = parts[0][0].grid
    offset = math.fsum(float(np.sum(count * np.asarray(pmf.offset))) for pmf, count in parts)
    first, length = window.indices(grid, offset)
    log_mgf = np.zeros(3)
    orders = (window.order, window.order + window.above_order, window.order - window.below_order)
    factors = []
    for pmf, count in parts:
        logs, tilted_masses = _tilt(pmf, orders, up)
        log_mgf += [float(np.sum(count * log)) for log in logs]
        factors.append(Factor(np.atleast_2d(tilted_masses), pmf.first, np.atleast_1d(np.asarray(count, np.float64))))
    tilted, error = convolve(factors, length)
    terms = sum(np.size(count) for _, count in parts)
    rounding = 8 * UNIT_ROUNDOFF * float(np.abs(log_mgf).max()) * terms
    start, end = first * grid + offset, (first + length - 1) * grid + offset
    reach = abs(start) + abs(end) + abs(offset)
    above = _chernoff(log_mgf[1] - log_mgf[0] - window.above_order * end)
    below = _chernoff(log_mgf[2] - log_mgf[0] + window.below_order * start)
    return Composition(
        grid=grid,
        first=first,
        offset=offset,
        tilted=np.roll(tilted, -(first % length)),
        order=window.order,
        log_mgf=float(log_mgf[0]) + (rounding if up else -rounding),
        infinity=min(1.0, sum(float(np.sum(count * pmf.infinity)) for pmf, count in parts)),
        dropped=_chernoff(log_mgf[0] - window.order * end) * above,
        wrapped=above + below,
        error=error,
        slack=sum(float(np.sum(count * pmf.slack)) for pmf, count in parts) + 8 * UNIT_ROUNDOFF * reach,
    )


def _tilt(pmf: LossPmf, orders: Sequence[float], up: bool) -> tuple[list[Array], Array]:
    """log M at each order; the masses tilted by the first, rounded up (or down) by the error of the exponentials."""
    losses = pmf.losses
    with np.errstate(divide="ignore"):
        log_masses = np.log(pmf.masses)
    exponents = [log_masses + order * losses for order in orders]
    logs, weights = zip(*(_log_sum(exponent) for exponent in exponents), strict=True)
    exponent, log_mgf = exponents[0], logs[0]
    size = np.where(weights[0] > 0, np.abs(exponent) + abs(orders[0]) * np.abs(losses), 0.0)
    relative = 8 * UNIT_ROUNDOFF * (4 + size + np.abs(log_mgf))
    tilted = np.exp(exponent - log_mgf) * (1 + relative if up else np.maximum(1 - relative, 0.0))
    return [log[..., 0] for log in logs], tilted


def _log_sum(exponent: Array) -> tuple[Array, Array]:
    """The logarithm of the sum of exp over the last axis, which is kept, and the terms relative to the largest."""
    peak = exponent.max(axis=-1, keepdims=True)
    weights = np.exp(exponent - peak)
    return peak + np.log(weights.sum(axis=-1, keepdims=True)), weights


def _chernoff(exponent: float) -> float:
    """exp, raised by more than the rounding of its argument; infinite instead of an overflow."""
    return math.inf if not exponent < 700 else math.exp(exponent + 1e-3)
