"""The range of a column without known bounds, from two noisy histograms over all magnitudes.

| histogram | bins                                                                  | share of the price |
|-----------|-----------------------------------------------------------------------|--------------------|
| powers    | every power of two from 2^-20 to 2^64, their negatives, one around 0   | 70 %               |
| eighths   | each of these in eight                                                | 30 %               |

A person is in at most one bin of each, so both together cost as much as one histogram. The rest is post-processing: the
range covers the powers whose counts are clear of the noise, and neighbours that are likely not empty. An end is taken
from the eighths if they show it more exactly and hardly anybody is left outside.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.core.array_types import Array, IntArray

_SMALLEST, _LARGEST = -20, 64
_CUTS = 8
_POWERS_SHARE = 0.7
_CLEAR, _LIKELY, _CLEAR_EIGHTH = 5.0, 2.5, 3.5
"""Thresholds in deviations of the noise. Of 169 powers, an empty one looks full once in 20,000 columns; one of two
neighbours once in 80, which makes a range twice as wide."""

_OUTSIDE = 0.05
"""The share of all rows that an end taken from the eighths may seem to leave outside."""


def _both_signs(positive: Array) -> tuple[float, ...]:
    return (*(-positive[::-1]).tolist(), *positive.tolist())


_EXPONENTS = 2.0 ** np.arange(_SMALLEST, _LARGEST)
_LAST = 2.0**_LARGEST
POWERS = _both_signs(np.append(_EXPONENTS, _LAST))
EIGHTHS = _both_signs(np.append((_EXPONENTS[:, np.newaxis] * (1 + np.arange(_CUTS) / _CUTS)).ravel(), _LAST))
"""Edges of bins, ascending; each is exact as a float."""


def noises(noise: float) -> tuple[float, float]:
    """Deviations, in people, of a bin of powers and of a bin of eighths. Both together cost as much as one histogram
    with deviation `noise`: Gaussian releases add up by 1 / deviation^2."""
    return noise / math.sqrt(_POWERS_SHARE), noise / math.sqrt(1 - _POWERS_SHARE)


def range_of(powers: Array, eighths: Array, noise: float) -> tuple[float, float]:
    """(low, high) of a column, from its noisy counts and the `noise` that it was bought with."""
    of_powers, of_eighths = noises(noise)
    clear = np.flatnonzero(powers > _CLEAR * of_powers)
    first, last = (int(clear[0]), int(clear[-1])) if len(clear) else (int(powers.argmax()),) * 2
    while first > 0 and powers[first - 1] > _LIKELY * of_powers:
        first -= 1
    while last < len(powers) - 1 and powers[last + 1] > _LIKELY * of_powers:
        last += 1
    outside = _OUTSIDE * powers[first : last + 1].sum()
    low, high = POWERS[first], POWERS[last + 1]
    full, inside = _full_eighths(eighths, first, _CLEAR_EIGHTH * of_eighths)
    if len(full) and powers[first] - inside[full[0] :].sum() < outside:
        low = EIGHTHS[_eighths_of(first)[0] + full[0]]
    full, inside = _full_eighths(eighths, last, _CLEAR_EIGHTH * of_eighths)
    if len(full) and powers[last] - inside[: full[-1] + 1].sum() < outside:
        high = EIGHTHS[_eighths_of(last)[0] + full[-1] + 1]
    return low, high


def _full_eighths(eighths: Array, power: int, clear: float) -> tuple[IntArray, Array]:
    """The eighths of a power that are clear of the noise, and the counts of all of them."""
    start, stop = _eighths_of(power)
    inside = eighths[start:stop]
    return np.flatnonzero(inside > clear), inside


def _eighths_of(power: int) -> tuple[int, int]:
    """Range of the eighths in a bin of powers: the first, and the one after the last."""
    start, stop = np.searchsorted(EIGHTHS, (POWERS[power], POWERS[power + 1]))
    return int(start), int(stop)
