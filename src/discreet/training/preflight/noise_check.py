"""The noise check before a run: does a release have the noise scale that is paid for?

No data is read: the run's mechanism and noise sampler add noise to zeros, and the result is thrown away.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from torch import nn

from discreet.clipping import Accumulator, Clip, Engine, private_parameters
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.release import ClippedSum, Receipt
from discreet.mechanism import Chain, gaussian_release, noise_multiplier
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import NOISE_SAMPLERS, RoundedSampler, SystemStream, new_run_key
from discreet.training.clip_state import Clipping
from discreet.training.preflight.engine_check import Preflight

VALUES = 4096
FALSE_ALARM = 1e-9
"""Probability that a sound run is refused. Noise of half the scale passes with a chance below 1e-300, and noise that is
off by a fifth with one below 1e-20."""


def noise_named(name: str) -> RoundedSampler:
    """The noise sampler called `name`."""
    if name not in NOISE_SAMPLERS:
        raise InputError(f"unknown noise {name!r}; known: {', '.join(NOISE_SAMPLERS)}")
    return NOISE_SAMPLERS[name]


def with_noise(
    preflight: Preflight, plan: Plan | AdaptivePlan, model: nn.Module, clipping: Clipping, noise: RoundedSampler
) -> Preflight:
    """The preflight with a note on the noise check of the plan's first step. `PrivacyViolation` if the noise scale is
    not multiplier x sensitivity, with at least the sensitivity of the first step's clipping, and of all releases that
    hold it where noise is correlated."""
    event = plan.first_event
    release = Receipt("preflight", 0, 0, event).release
    clip = clipping.at(0, release)
    zeros, strategy = _zeros(model, preflight.engine, clip, plan.draw_of(event).largest_batch), plan.sampling.strategy
    paid = noise_multiplier(release) * max(zeros.sensitivity, clip.sensitivity) * math.hypot(*strategy)
    total = Chain(strategy).mixed(zeros)
    receipt = Receipt("preflight", 0, 0, release)
    stream = SystemStream.start(new_run_key(), 0)  # of its own, so that no noise of the run is seen beforehand
    found = gaussian_release(total, receipt, stream, noise).tensors["noise"]
    low, high = _limits()
    if not low < float(np.square(found / paid).sum()) < high:
        raise PrivacyViolation(
            f"{VALUES} values of noise are {float(found.std()):.3g} in size, but {paid:.3g} is paid for; nothing was "
            f"charged. A sound run looks like this once in {1 / FALSE_ALARM:.0e}: try again, and report it"
        )
    return replace(preflight, line=f"{preflight.line}; noise {noise.name}: {VALUES} values have the scale paid for")


def _zeros(model: nn.Module, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
    """A sum of zeros with the sensitivity and the grid of the first step's sum."""
    empty = Accumulator(private_parameters(model), bit=clip.bit > 0)
    return replace(empty.total(engine, clip, largest_batch), tensors={"noise": np.zeros(VALUES)})


def _limits() -> tuple[float, float]:
    """Limits of the sum of squares of the standard normals (chi-squared), exceeded with probability `FALSE_ALARM`."""
    from scipy.special import gammainccinv, gammaincinv  # here, because most commands release nothing

    half, tail = VALUES / 2, FALSE_ALARM / 2
    return 2 * float(gammaincinv(half, tail)), 2 * float(gammainccinv(half, tail))
