"""The Gaussian mechanism: the noisy release of a clipped sum."""

from __future__ import annotations

import math

import numpy as np

from discreet.core.arrays import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event, Gaussian, Poisson
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.randomness import Purpose, Stream, normals


def gaussian_release(total: ClippedSum, receipt: Receipt, stream: Stream) -> Release:
    """Add noise of standard deviation `noise_multiplier x sensitivity` to every coordinate of `total`.

    The multiplier is read off the event that `receipt` paid for, and the sensitivity off the sum, so neither
    can disagree with what is accounted. Noise comes from the sub-stream (noise, receipt.position), tensor by
    tensor in the order of their names. A sum that is not finite is a `PrivacyViolation`: clipping failed.
    """
    noise_std = _gaussian(receipt.event).noise_multiplier * total.sensitivity
    substream = stream.substream(Purpose.NOISE, receipt.position)
    noisy: dict[str, Array] = {}
    for name in sorted(total.tensors):
        tensor = total.tensors[name]
        if not np.isfinite(tensor).all():
            raise PrivacyViolation(f"the clipped sum of {name} is not finite; nothing was released for this step")
        noise = normals(substream, math.prod(tensor.shape)).reshape(tensor.shape)
        noisy[name] = tensor + noise_std * noise
    return Release(noisy, receipt.event, receipt)


def _gaussian(event: Event) -> Gaussian:
    inner = event.event if isinstance(event, Poisson) else event
    if not isinstance(inner, Gaussian):
        raise PrivacyViolation(f"the receipt pays for {type(inner).__name__}, not for one Gaussian release")
    return inner
