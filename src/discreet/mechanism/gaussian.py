"""The Gaussian mechanism on a grid: the noisy release of a clipped sum.

The sum is a multiple of a public power of two, and so is the noise: a continuous Gaussian, rounded. Since
round(S) + round(Z) = round(round(S) + Z), the release is post-processing of the Gaussian mechanism on the rounded sum,
and Gaussian accounting holds with that sum's sensitivity. Unlike sums of floating-point numbers (Mironov 2012), its
digits tell nothing about S beyond that.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.core.arrays import Array, IntArray
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event, Gaussian
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.randomness import Purpose, RoundedSampler, Stream

GRID_BITS = 30
"""The grid lies this many bits below the noise (at least 20, so that rounding is nothing beside it)."""

LARGEST_MULTIPLE = 2.0**52
"""Multiples of the grid up to here are exact in float64, also after the noise is added."""

_BLOCK = 1 << 14


def noise_multiplier(release: Event) -> float:
    """The multiplier of what a step may release, which must be one Gaussian query."""
    if not isinstance(release, Gaussian):
        raise PrivacyViolation(f"the receipt pays for {type(release).__name__}, not for one Gaussian release")
    return release.noise_multiplier


def grid_for(release: Event, clip_norm: float) -> float:
    """The public grid of a step: a power of two, `GRID_BITS` bits below multiplier x clip norm."""
    return math.ldexp(1.0, math.frexp(noise_multiplier(release) * clip_norm)[1] - 1 - GRID_BITS)


def gaussian_release(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler) -> Release:
    """Add rounded Gaussian noise of standard deviation >= `noise_multiplier x sensitivity` to every coordinate.

    The multiplier is read off the event that `receipt` paid for, and the sensitivity off the sum, so neither can
    disagree with what is accounted. Noise comes from the sub-stream (noise, receipt.position), tensor by tensor in
    the order of their names. A sum that is not finite or too large for its grid is a `PrivacyViolation`.
    """
    scale = math.ceil(noise_multiplier(receipt.release) * total.sensitivity / total.grid * (1 + 2.0**-50))
    substream = stream.substream(Purpose.NOISE, receipt.position)
    noisy: dict[str, Array] = {}
    for name in sorted(total.tensors):
        values = np.asarray(total.tensors[name], np.float64, order="C")
        noise = sampler.draw(substream, values.size, scale)
        try:
            noisy[name] = _add_in_place(noise, values.reshape(-1), total.grid).reshape(values.shape)
        except ArithmeticError:
            raise PrivacyViolation(
                f"the clipped sum of {name} is not on its grid; nothing was released for this step"
            ) from None
    return Release(noisy, receipt.event, receipt)


def _add_in_place(noise: IntArray, values: Array, grid: float) -> Array:
    """`values` + noise x grid, added in whole numbers, in the memory of the noise.

    Block by block, so that all but the result stays in the cache: new memory would cost as much as the noise.
    `ArithmeticError` if a value is not a multiple of the grid, or too large a one.
    """
    noisy = noise.view(np.float64)
    for start in range(0, len(noise), _BLOCK):
        block = slice(start, start + _BLOCK)
        units = values[block] / grid
        if not (np.abs(units) < LARGEST_MULTIPLE).all():  # nor is NaN
            raise ArithmeticError
        whole = units.astype(np.int64)
        if not (whole == units).all():
            raise ArithmeticError
        whole += noise[block]
        np.multiply(whole, grid, out=noisy[block])
    return noisy
