"""The Gaussian mechanism on a grid: the noisy release of a clipped sum.

The sum is a multiple of a public power of two, and so is the noise: a continuous Gaussian, rounded. Since
round(S) + round(Z) = round(round(S) + Z), the release is post-processing of the Gaussian mechanism on the rounded sum,
and Gaussian accounting holds with that sum's sensitivity. Unlike sums of floating-point numbers (Mironov 2012), its
digits tell nothing about S beyond that.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.core.arrays import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event, Gaussian
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.randomness import Purpose, RoundedSampler, Stream

GRID_BITS = 30
"""The grid lies this many bits below the noise (at least 20, so that rounding is nothing beside it)."""

LARGEST_MULTIPLE = 2.0**52
"""Multiples of the grid up to here are exact in float64, also after the noise is added."""


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
        units = np.asarray(total.tensors[name] / total.grid)
        if not (
            np.isfinite(units).all() and (np.abs(units) < LARGEST_MULTIPLE).all() and (units == np.rint(units)).all()
        ):
            raise PrivacyViolation(f"the clipped sum of {name} is not on its grid; nothing was released for this step")
        noise = sampler.draw(substream, units.size, scale).reshape(units.shape)
        noisy[name] = np.asarray((units.astype(np.int64) + noise) * total.grid)
    return Release(noisy, receipt.event, receipt)
