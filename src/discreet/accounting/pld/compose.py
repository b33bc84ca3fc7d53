"""The distribution of a sum of many independent grid losses, by Fourier transform, with every error bounded.

The masses are tilted first: p_j becomes p_j e^(lambda l_j) / M(lambda). A delta in the far tail is the bulk of
a tilted distribution, so absolute errors of the transform become errors relative to that delta. A sum of
independent losses tilts as its parts do, hence

    delta(eps) = M e^(-lambda eps) E_tilted[e^(-lambda (L - eps)) (1 - e^(eps - L))_+]
    log M = sum of counts x log M_i.

Distinct parts become a product of spectra, each raised to its count. Indices are kept modulo the length of the
transform; what lies outside the window wraps into it, and is bounded by Chernoff's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from discreet.accounting.pld.discretise import LossPmf
from discreet.accounting.pld.pair import UNIT_ROUNDOFF
from discreet.accounting.pld.window import Window
from discreet.core.arrays import Array, ComplexArray


@dataclass(frozen=True, slots=True)
class Composition:
    """Tilted masses of a composed loss: `tilted[j]` at loss `(first + j) * grid + offset`, with bounds on what is off.

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


def compose(parts: Sequence[tuple[LossPmf, int]], window: Window, *, up: bool) -> Composition:
    """Compose `count` copies of each part. All parts share one grid; `up` says which way to round."""
    grid = parts[0][0].grid
    offset = math.fsum(count * pmf.offset for pmf, count in parts)
    first, length = window.indices(grid, offset)
    spectrum = _Spectrum.ones(length)
    log_mgf = np.zeros(3)
    orders = (window.order, window.order + window.above_order, window.order - window.below_order)
    for pmf, count in parts:
        logs = [_tilt(pmf, order, up) for order in orders]
        log_mgf += count * np.array([log for log, _ in logs])
        spectrum = spectrum.times(_fold(logs[0][1], pmf.first, length), count)
    tilted, error = spectrum.invert()
    rounding = 8 * UNIT_ROUNDOFF * float(np.abs(log_mgf).max()) * len(parts)
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
        infinity=min(1.0, sum(count * pmf.infinity for pmf, count in parts)),
        dropped=_chernoff(log_mgf[0] - window.order * end) * above,
        wrapped=above + below,
        error=error,
        slack=sum(count * pmf.slack for pmf, count in parts) + 8 * UNIT_ROUNDOFF * reach,
    )


def _tilt(pmf: LossPmf, order: float, up: bool) -> tuple[float, Array]:
    """log M(order) and the tilted masses, rounded up (or down) by the error of the exponentials."""
    with np.errstate(divide="ignore"):
        exponent = np.log(pmf.masses) + order * pmf.losses
    peak = float(exponent.max())
    weights = np.exp(exponent - peak)
    log_mgf = peak + math.log(float(weights.sum()))
    size = np.where(weights > 0, np.abs(exponent) + abs(order) * np.abs(pmf.losses), 0.0)
    relative = 8 * UNIT_ROUNDOFF * (4 + size + abs(log_mgf))
    tilted = np.exp(exponent - log_mgf) * (1 + relative if up else np.maximum(1 - relative, 0.0))
    return log_mgf, tilted


def _fold(masses: Array, first: int, length: int) -> Array:
    """Add up masses whose absolute grid index is equal modulo `length`."""
    start = first % length
    padded = np.zeros(-(-(start + len(masses)) // length) * length)
    padded[start : start + len(masses)] = masses
    result: Array = padded.reshape(-1, length).sum(axis=0)
    return result


def _chernoff(exponent: float) -> float:
    """exp, nudged up by more than the rounding of its argument; infinite rather than an overflow."""
    return math.inf if not exponent < 700 else math.exp(exponent + 1e-3)


@dataclass(frozen=True, slots=True)
class _Spectrum:
    """A product of powers of spectra: its logarithm, a bound on the error of that, and one on its modulus."""

    length: int
    log: ComplexArray
    log_error: Array
    log_modulus: Array

    @classmethod
    def ones(cls, length: int) -> _Spectrum:
        half = length // 2 + 1
        return cls(length, np.zeros(half, complex), np.zeros(half), np.zeros(half))

    def times(self, masses: Array, count: int) -> _Spectrum:
        """Multiply by the spectrum of `masses` to the power `count`.

        Every output of a fast Fourier transform is a sum of the inputs along a tree of log2(n) levels, so
        its error is at most c log2(n) roundings of the L1 norm of the input (Higham 2002, section 24.1; c = 8
        is ample for the mixed radices of pocketfft and is checked against long double in the tests).
        """
        transform = fft.rfft(masses)
        error = _fft_rounding(self.length) * float(masses.sum())
        modulus = np.abs(transform)
        with np.errstate(divide="ignore"):
            log = np.log(transform)
            relative = error / modulus
        step = relative / np.maximum(1 - relative, 1e-3) + 8 * UNIT_ROUNDOFF * (4 + np.abs(log))
        step = np.where(relative < 0.5, step, np.inf)
        return _Spectrum(
            self.length,
            self.log + count * np.where(np.isfinite(log), log, -1e6),
            self.log_error + count * step + 4 * UNIT_ROUNDOFF * np.abs(self.log),
            self.log_modulus + count * np.log(modulus + error),
        )

    def invert(self) -> tuple[Array, float]:
        """The masses, and a bound on the L2 norm of their error.

        Where the logarithm is known to within e, the product is known to within |product| (exp(e) - 1);
        where it is not, both the product and what was computed are small, and their moduli bound the error.
        """
        product = np.exp(self.log)
        modulus = np.abs(product)
        with np.errstate(over="ignore", invalid="ignore"):
            known = modulus * np.expm1(self.log_error)
        bound = np.fmin(np.where(np.isfinite(known), known, np.inf), modulus + np.exp(self.log_modulus) * (1 + 1e-6))
        weights = np.full(len(product), 2.0)
        weights[0] = 1.0
        if self.length % 2 == 0:
            weights[-1] = 1.0
        own = math.sqrt(float(np.sum(weights * bound**2)))
        inverse = _fft_rounding(self.length) * math.sqrt(float(np.sum(weights * modulus**2)))
        masses: Array = fft.irfft(product, self.length)
        return masses, 1.01 * (own + inverse) / math.sqrt(self.length)


def _fft_rounding(length: int) -> float:
    return 8 * UNIT_ROUNDOFF * math.log2(max(length, 2))
