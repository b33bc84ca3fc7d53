"""Correlated noise beside independent noise: what it gains, the best coefficients, and the best number of bands.

An optimizer with a constant learning rate moves by sums of the first t releases, t = 1 to T. With the strategy C, lower
triangular and Toeplitz with first column c, the noise in these sums has the covariance of A C^-1 z, A the matrix of
sums, and the noise that privacy needs grows with |c|. So what counts is

    error(c) = |c| sqrt(1/T sum_t sum_(i <= t) p_i^2),   p_i = w_0 + ... + w_i,   w the first column of C^-1,

the root of the mean over t of the noise's variance, in units of noise multiplier x sensitivity (Denisov et al. 2022;
Choquette-Choo et al. 2023, arXiv:2306.08153, for bands). More bands have a smaller error, but fewer turns to hide in:
with b bands a unit takes part with b times the probability in a b-th of the steps. Only choices follow from these
figures; privacy does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.events import CyclicPoisson, Gaussian, Repeat

UNIT = 64
"""The first coefficient; with whole numbers of a 64th the error is within 0.1 % of the least possible."""

MOST_BANDS = 64
"""Sums of so many steps are kept at most."""


@dataclass(frozen=True, slots=True)
class Bands:
    """A number of bands with its best coefficients, and the noise multiplier that a budget needs with them.

    `gain`: the noise in sums of releases, over that of independent noise on Poisson batches for the same budget.
    """

    coefficients: tuple[int, ...]
    noise_multiplier: float
    gain: float


def error(coefficients: Sequence[float], steps: int) -> float:
    """Root mean square of the noise in the sums of the first 1, 2, ..., `steps` releases, in units of noise multiplier
    x sensitivity."""
    column = np.asarray(coefficients, dtype=np.float64)
    sums = np.cumsum(_inverse(column, steps))
    return math.sqrt(float(column @ column) * float(_shares(steps) @ (sums * sums)))


def noise_ratio(bands: int, steps: int) -> float:
    """The noise in sums of releases with the best coefficients, over that of independent noise at one multiplier."""
    return error(best_coefficients(bands, steps), steps) / error((1,), steps)


@lru_cache(maxsize=256)
def best_coefficients(bands: int, steps: int) -> tuple[int, ...]:
    """The decreasing coefficients of `bands` bands whose error over `steps` steps is least, in 64ths of the first."""
    bands = checks.count("bands", bands)
    if bands == 1:
        return (1,)
    from scipy.optimize import minimize

    start = 1 - 0.5 / np.arange(1, bands)  # ratios of neighbours, of the root of the matrix of sums
    found = minimize(_log_error, start, args=(steps,), jac=True, method="L-BFGS-B", bounds=[(0.01, 1.0)] * (bands - 1))
    column = UNIT * np.cumprod(np.append(1.0, found.x))
    return tuple(max(1, round(float(one))) for one in column)


def choices(
    rate: float, steps: int, epsilon: float, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> list[Bands]:
    """The noise that one band (independent noise) and each number of bands near a power of two need; `rate` is the
    share of steps that a unit is in, on average. Numbers that do not divide `steps` are left out."""
    found: list[Bands] = []
    alone = None
    for bands in _candidates(rate, steps):
        turn, rounds = min(1.0, bands * rate), steps // bands
        noise, _ = calibrate_noise(
            lambda s, b=bands, p=turn, n=rounds: Repeat(CyclicPoisson(b, p, Gaussian(s)), n),  # type: ignore[misc]
            *(epsilon, delta, adjacency),
        )
        column = best_coefficients(bands, steps)
        here = noise * error(column, steps)
        alone = here if alone is None else alone
        found.append(Bands(column, noise, here / alone))
    return found


@lru_cache(maxsize=64)
def best_bands(
    rate: float, steps: int, epsilon: float, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Bands:
    """The choice with the least noise in sums of releases: never more than that of independent noise."""
    return min(choices(rate, steps, epsilon, delta, adjacency), key=lambda one: one.gain)


def _candidates(rate: float, steps: int) -> Iterator[int]:
    """1, and for each power of two the nearest divisor of the steps, up to where a unit is in every round."""
    most = min(MOST_BANDS, steps, math.floor(1 / rate * (1 + 1e-9)))
    divisors = [one for one in range(1, most + 1) if steps % one == 0]
    powers = [2**k for k in range(most.bit_length())]
    yield from sorted({min(divisors, key=lambda one: abs(math.log(one / power))) for power in powers} | {1})


def _inverse(column: Array, steps: int) -> Array:
    """The first column of the inverse of the lower triangular Toeplitz matrix with this first column."""
    from scipy.signal import lfilter

    impulse = np.zeros(steps)
    impulse[0] = 1.0
    found: Array = lfilter([1.0], column, impulse)
    return found


def _shares(steps: int) -> Array:
    """In which share of the sums each p_i counts."""
    return np.arange(steps, 0, -1) / steps


def _log_error(ratios: Array, steps: int) -> tuple[float, Array]:
    """ln error^2 as a function of the ratios of neighbouring coefficients, the first 1, and its gradient.

    Since C C^-1 = 1, a change of c changes w by -w * w * (change), * a convolution.
    """
    from scipy.signal import lfilter

    column = np.cumprod(np.append(1.0, ratios))
    inverse = _inverse(column, steps)
    sums, shares = np.cumsum(inverse), _shares(steps)
    length, noise = float(column @ column), float(shares @ (sums * sums))
    by_inverse = np.cumsum((2 * shares * sums)[::-1])[::-1]
    seen = lfilter([1.0], column, by_inverse[::-1])[::-1]
    lags = range(1, min(len(column), steps))
    by_column = np.zeros(len(column))
    by_column[1 : len(lags) + 1] = [-float(inverse[: steps - lag] @ seen[lag:]) for lag in lags]
    slope = (2 * column / length + by_column / noise) * column
    by_ratio = np.cumsum(slope[::-1])[::-1][1:] / ratios  # a ratio scales all coefficients from its own on
    return math.log(length) + math.log(noise), by_ratio
