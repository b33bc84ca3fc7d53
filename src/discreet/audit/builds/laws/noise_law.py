"""The law of the noise: its scale, that it is normal, and that no noise is used twice.

Noise is seen in two ways. Where nobody is drawn the optimizer is given noise alone: two runs with the randomness of the
operating system. And where batches are drawn, the difference of two runs with the same draws but fresh noise, the
second led along the first: so the noise beside real sums, at every noise multiplier and clip norm that the plan has.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.audit.builds.audit_stream import FreshNoise
from discreet.audit.builds.following import Trace, follow
from discreet.audit.builds.laws.noise_tests import (
    law,
    places_apart,
    scale,
    scale_of_each_number,
    steps_apart,
    steps_apart_by_tensor,
    tensors_apart,
)
from discreet.audit.builds.small_plans import nobody, phases_like, sampling_like, small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.plan import Plan, PoissonSampling

ROWS = 24
_PHASES = 6


def noise_outcomes(subject: Subject, *, steps: int) -> Iterator[Outcome]:
    """The noise of an empty batch, and beside drawn ones. Even numbers of steps: the first half chooses what to look
    at closely in the second."""
    runs = [_alone(subject, steps) for _ in range(2)]  # the second must not repeat the first
    problem = next((found for found in (_fault(one) for one in runs) if found), None)
    if problem is not None:
        yield Outcome("noise/empty batches", problem, wrong=True)
        return
    spans = _spans(subject, runs[0])
    alone = np.concatenate([_standard(one) for one in runs])
    yield scale("noise/scale, nobody drawn", alone, spans)
    yield scale_of_each_number("noise/scale of each number", alone, spans)
    yield law("noise/law", alone, spans)
    yield steps_apart("noise/steps and runs", alone)
    yield steps_apart_by_tensor("noise/steps, tensor by tensor", alone, spans)
    yield tensors_apart("noise/tensors", alone, spans)
    yield places_apart("noise/places", alone, spans)
    yield from _beside_sums(subject, max(8, steps // 5))


def _beside_sums(subject: Subject, steps: int) -> Iterator[Outcome]:
    """The noise of drawn batches, over the phases of the plan."""
    try:
        sampling = sampling_like(subject.plan.sampling, ROWS, 0.4)
    except InputError:
        sampling = PoissonSampling(rate=0.4)
    noise, norms = phases_like(subject.plan, _PHASES, steps, sampling.sampler(ROWS).period)
    plan = small(subject.plan, sampling, ROWS, sum(count for _, count in noise), noise=noise, norms=norms or None)
    rows = subject.maker.units(ROWS, seed=3)
    one = _seeded(subject, plan, rows, None)
    other = _seeded(subject, plan, rows, one)
    name = "noise/scale, batches drawn"
    problem = _fault(one) or _fault(other)
    if problem:
        yield Outcome(name, problem, wrong=True)
        return
    between = (_standard(one) - _standard(other)) / np.sqrt(2)
    yield scale(name, between, _spans(subject, one), phases=[count for _, count in noise])
    yield steps_apart("noise/steps, batches drawn", between)


def _alone(subject: Subject, steps: int) -> Trace:
    plan = small(subject.plan, nobody(subject.plan), ROWS, steps)
    with subject.training(plan, subject.maker.units(ROWS, seed=4)) as training:
        return follow(training, still=True)


def _seeded(subject: Subject, plan: Plan, rows: object, lead: Trace | None) -> Trace:
    with subject.training(plan, rows, stream=FreshNoise(11), chunk=1 if subject.draws else None) as training:  # type: ignore[arg-type]
        return follow(training, lead)


def _fault(trace: Trace) -> str | None:
    """Why the noise of a run cannot be looked at, which is a finding."""
    if trace.failed:
        return f"the run fails: {trace.failed}"
    if trace.steps != trace.taken:
        return f"{trace.steps} of {trace.taken} steps released something; a step without rows must release noise too"
    if trace.missing:
        return f"{trace.missing} times a parameter got no release"
    if not np.isfinite(trace.sums()).all():
        return "what the optimizer is given is not finite"
    return None


def _standard(trace: Trace) -> Array:
    """The releases of a run without rows, in the standard deviations that the plan promises: (steps, numbers). Noise
    that is correlated over steps is made independent again."""
    plan, sums = trace.promised.plan, trace.sums()
    first, *others = plan.sampling.strategy
    made = first * sums
    for lag, weight in enumerate(others, start=1):
        made[lag:] += weight * sums[:-lag]
    multipliers = np.array([trace.promised.multiplier(step) for step in range(trace.steps)])
    deviations = multipliers * trace.sensitivities() * np.linalg.norm(plan.sampling.strategy)
    found: Array = made / deviations[:, None]
    return found


def _spans(subject: Subject, trace: Trace) -> dict[str, slice]:
    """The place of each tensor in a release, with the bit of an adaptive clip rule as the last."""
    spans = subject.spans
    if trace.sums().shape[1] > subject.numbers:
        spans["the bit of the clip norm"] = slice(subject.numbers, subject.numbers + 1)
    return spans
