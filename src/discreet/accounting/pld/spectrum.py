"""The convolution of many powers of masses, as a product of spectra, with every rounding error bounded.

The product of thousands of spectra is concentrated at low frequencies: in a window of w standard deviations of the
sum, about w of them matter. A few factors are transformed in full. No spectrum exceeds the sum of its masses,
so their product bounds the product of all; where that bound is negligible, the other factors are not computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.core.array_types import Array, ComplexArray

_WITNESSES = 64
_NEGLIGIBLE = 1e-15


@dataclass(frozen=True, slots=True)
class Factor:
    """Rows of masses, shape (k, m), from grid index `first` on, each to be convolved with itself `counts` times."""

    masses: Array
    first: int
    counts: Array


def convolve(factors: Sequence[Factor], length: int) -> tuple[Array, float]:
    """The circular convolution of all factors, shape (length,), and a bound on the L2 norm of its error.

    Position j holds the masses of all sums whose grid index is j modulo `length`.
    """
    bound = _modulus_bound(factors, length)
    needed = _needed(bound, length)
    total = _LogProduct(np.zeros(needed, complex), np.zeros(needed), np.zeros(needed))
    for factor in factors:
        total = total.times(*_transform(factor, length, needed), factor.counts)
    product, error = total.value()
    half = length // 2 + 1
    weights = _weights(length)
    own = math.sqrt(float(weights[:needed] @ error**2 + weights[needed:] @ bound[needed:] ** 2))
    inverse = fft_rounding(length) * math.sqrt(float(weights[:needed] @ np.abs(product) ** 2))
    padded = np.zeros(half, complex)
    padded[:needed] = product
    masses: Array = fft.irfft(padded, length)
    return masses, 1.01 * (own + inverse) / math.sqrt(length)


def fft_rounding(length: int) -> float:
    """Relative error of a fast Fourier transform: each output is off by at most this times the L1 norm of the input.

    An output is a sum of the inputs along a tree of log2(n) levels (Higham 2002, section 24.1); the constant 8 is
    ample for the mixed radices of pocketfft, and is checked against long double in the tests.
    """
    return 8 * UNIT_ROUNDOFF * math.log2(max(length, 2))


def _modulus_bound(factors: Sequence[Factor], length: int) -> Array:
    """An upper bound on the modulus of the whole product at every frequency, from a few factors."""
    rows = [(factor, row) for factor in factors for row in range(len(factor.counts))]
    if len(rows) <= _WITNESSES:
        return np.full(length // 2 + 1, np.inf)
    log_bound = np.zeros(length // 2 + 1)
    for factor in factors:
        log_bound += float(factor.counts @ np.maximum(np.log(factor.masses.sum(axis=-1)), 0.0)) * (1 + 1e-9) + 1e-9
    for factor, row in (rows[i] for i in np.linspace(0, len(rows) - 1, _WITNESSES).astype(int)):
        masses = factor.masses[row : row + 1]
        modulus = np.abs(fft.rfft(_fold(masses, factor.first, length)))[0] + fft_rounding(length) * float(masses.sum())
        log_bound += factor.counts[row] * np.minimum(np.log(modulus), 0.0)
    result: Array = np.exp(np.minimum(log_bound, 700.0))
    return result


def _needed(bound: Array, length: int) -> int:
    """The number of low frequencies to compute, so that the rest has a negligible norm."""
    with np.errstate(over="ignore"):
        rest = np.sqrt(np.cumsum((_weights(length) * bound**2)[::-1])[::-1])
    negligible = np.flatnonzero(rest <= _NEGLIGIBLE * math.sqrt(length))
    return max(1, int(negligible[0])) if len(negligible) else len(bound)


def _transform(factor: Factor, length: int, needed: int) -> tuple[ComplexArray, Array]:
    """The spectra of all rows at the lowest `needed` frequencies, and a bound on the error of each row's.

    A few frequencies are summed directly; the error of an output is then at most one rounding per term.
    """
    total = factor.masses.sum(axis=-1, keepdims=True)
    size = factor.masses.shape[-1]
    if len(factor.counts) == 1 or needed * size > 64 * length:
        rows = np.split(factor.masses, len(factor.counts))
        spectra = [fft.rfft(_fold(row, factor.first, length))[:, :needed] for row in rows]
        return np.concatenate(spectra), fft_rounding(length) * total
    index = np.arange(factor.first, factor.first + size, dtype=np.int64) % length
    angle = (2 * math.pi / length) * (np.outer(index, np.arange(needed, dtype=np.int64)) % length)
    spectrum = factor.masses @ np.cos(angle) - 1j * (factor.masses @ np.sin(angle))
    return spectrum, (2 * size + 32) * UNIT_ROUNDOFF * total


def _fold(masses: Array, first: int, length: int) -> Array:
    """Add up masses whose absolute grid index is equal modulo `length`."""
    start, size = first % length, masses.shape[-1]
    padded = np.zeros((len(masses), -(-(start + size) // length) * length))
    padded[:, start : start + size] = masses
    result: Array = padded.reshape(len(masses), -1, length).sum(axis=1)
    return result


def _weights(length: int) -> Array:
    """The weight of each frequency of a real transform in the norm of the full transform."""
    weights = np.full(length // 2 + 1, 2.0)
    weights[0] = 1.0
    if length % 2 == 0:
        weights[-1] = 1.0
    return weights


@dataclass(frozen=True, slots=True)
class _LogProduct:
    """The logarithm of a product of powers of spectra, a bound on its error, and a bound on the product's modulus."""

    log: ComplexArray
    log_error: Array
    log_modulus: Array

    def times(self, spectra: ComplexArray, error: Array, counts: Array) -> _LogProduct:
        """Multiply by each row of `spectra`, known to within `error`, to the power of its count."""
        modulus = np.abs(spectra)
        with np.errstate(divide="ignore"):
            log = np.log(spectra)
            relative = error / modulus
        step = relative / np.maximum(1 - relative, 1e-3) + 8 * UNIT_ROUNDOFF * (4 + np.abs(log))
        step = np.where(relative < 0.5, step, np.inf)
        log = np.where(np.isfinite(log), log, -1e6)
        summing = 4 * UNIT_ROUNDOFF * (len(counts) * (counts @ np.abs(log)) + np.abs(self.log))
        return _LogProduct(
            self.log + counts @ log,
            self.log_error + counts @ step + summing,
            self.log_modulus + counts @ np.log(modulus + error),
        )

    def value(self) -> tuple[ComplexArray, Array]:
        """The product, and a bound on its error at each frequency.

        If the error of the logarithm is at most e, that of the product is at most |product| (exp(e) - 1). If e is large
        or infinite, the true and the computed product are small, and the sum of their moduli bounds the error.
        """
        product = np.exp(self.log)
        modulus = np.abs(product)
        with np.errstate(over="ignore", invalid="ignore"):
            known = modulus * np.expm1(self.log_error)
            most = modulus + np.exp(self.log_modulus) * (1 + 1e-6)
        return product, np.fmin(np.where(np.isfinite(known), known, np.inf), most)
