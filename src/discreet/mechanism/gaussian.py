"""The Gaussian mechanism on a grid: the noisy release of a clipped sum.

The sum is a multiple of a public power of two, and so is the noise: a continuous Gaussian, rounded. Since
round(S) + round(Z) = round(round(S) + Z), the release is post-processing of the Gaussian mechanism on the rounded sum,
and Gaussian accounting holds with that sum's sensitivity. The digits of the release tell nothing more about S, unlike
the digits of a floating-point sum (Mironov 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import Array, IntArray
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event
from discreet.core.release import ClippedSum, Receipt, Release, Share
from discreet.mechanism.grid import compiled
from discreet.mechanism.noise import NoiseAhead, draw_noise, noise_multiplier
from discreet.randomness import RoundedSampler, Stream
from discreet.randomness.blocks import in_blocks

GRID_BITS = 30
"""The grid lies this many bits below the noise (at least 20, so that rounding is negligible beside the noise)."""


def grid_for(release: Event, clip_norm: float) -> float:
    """The public grid of a step: a power of two, `GRID_BITS` bits below noise multiplier x clip norm."""
    return math.ldexp(1.0, math.frexp(noise_multiplier(release) * clip_norm)[1] - 1 - GRID_BITS)


def gaussian_release(
    total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, ahead: NoiseAhead | None = None
) -> Release:
    """Add rounded Gaussian noise of standard deviation >= `noise_multiplier x sensitivity` to every coordinate. Sums in
    single precision are rounded to the grid in the same pass.

    The multiplier is read from the event that `receipt` paid for, and the sensitivity from the sum, so neither can
    disagree with the accounting. Noise comes from the sub-stream (noise, receipt.position), tensor by tensor in the
    order of their names; `ahead` has drawn it already. `PrivacyViolation` if a sum is not finite, not on its grid or
    too large for it.

    Of a sum that several processes share, each adds the noise of its own numbers: number i gets the noise that one
    process would give it. `gathered` puts the shares together.
    """
    if total.share is not None:
        return _share_of_release(total, total.share, receipt, stream, sampler, ahead)
    sums = {name: _in_order(total.tensors[name]) for name in sorted(total.tensors)}
    size, bound = sum(values.size for values in sums.values()), (total.sensitivity, total.grid)
    noise = draw_noise(receipt, stream, sampler, size, *bound) if ahead is None else ahead.of(receipt, size, *bound)
    noisy: dict[str, Array] = {}
    start = 0
    for name, values in sums.items():
        part = noise[start : start + values.size]
        start += values.size
        add = compiled().round_and_add_noise if values.dtype == np.float32 else compiled().add_noise
        if in_blocks(partial(_in_part, add, values.reshape(-1), part, total.grid), values.size):
            raise PrivacyViolation(f"the clipped sum of {name} is not on its grid; nothing was released for this step")
        noisy[name] = part.view(np.float64).reshape(values.shape)
    return Release(noisy, receipt.event, receipt)


def _share_of_release(
    total: ClippedSum,
    share: Share,
    receipt: Receipt,
    stream: Stream,
    sampler: RoundedSampler,
    ahead: NoiseAhead | None,
) -> Release:
    (values,) = (_in_order(part) for part in total.tensors.values())
    bound = share.size, total.sensitivity, total.grid, share.parts
    noise = draw_noise(receipt, stream, sampler, *bound) if ahead is None else ahead.of(receipt, *bound)
    wrong = in_blocks(partial(_in_part, compiled().add_noise, values, noise, total.grid), len(values))
    noisy = noise.view(np.float64)
    if wrong:
        noisy[:] = np.nan  # so that all processes see it, and none waits for another
    return Release(dict.fromkeys(total.tensors, noisy), receipt.event, receipt, share)


def gathered(release: Release, divisor: float, *, narrow: bool) -> tuple[Release, float]:
    """The part that this process steps with of a release that several share, and what is left to divide it by; as it is
    without a share.

    `narrow`: divide before the shares are put together, and round to single precision, as an optimizer of such weights
    gets it: half as much to send. `PrivacyViolation` in all processes if a sum was not on its grid in one of them.
    """
    if release.share is None:
        return release, divisor
    (values,) = release.tensors.values()
    if narrow:
        means = np.empty(values.shape, np.float32)
        divide(values, divisor, means)
        values = means
    return replace(release, tensors=release.share.handed_out(values), share=None), 1.0 if narrow else divisor


def _in_part(add: Callable[..., int], values: Array, noise: IntArray, grid: float, start: int, stop: int) -> int:
    return add(values[start:stop], noise[start:stop], grid)


def divide(noisy: Array, divisor: float, out: npt.NDArray[np.float32]) -> None:
    """Overwrite `out`, contiguous, with `noisy / divisor`, divided in float64 and rounded to single precision. Shapes
    are equal."""
    if not out.flags.c_contiguous:
        raise PrivacyViolation("means are written to contiguous memory")
    values, found = noisy.reshape(-1), out.reshape(-1)

    def part(start: int, stop: int) -> int:
        np.divide(values[start:stop], divisor, out=found[start:stop], casting="same_kind")
        return 0

    in_blocks(part, values.size)


def _in_order(values: Array) -> Array:
    """The values, contiguous, in float64 unless they are in single precision."""
    return np.asarray(values, None if values.dtype == np.float32 else np.float64, order="C")


def rescaled(release: Release, scales: Mapping[str, Array]) -> Release:
    """The release with the tensors named in `scales` multiplied by them: post-processing, since scales are public."""
    tensors = {name: noisy * scales[name] if name in scales else noisy for name, noisy in release.tensors.items()}
    return replace(release, tensors=tensors)
