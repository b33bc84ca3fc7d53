"""Expected batches that change over the steps of a fixed plan, and epochs of different lengths.

With Poisson sampling the rate of a step decides its expected batch, hence the divisor of its noisy sum and the number
of steps in an epoch. Epoch t lasts until t + 1 populations were drawn on average: step i is in epoch floor(c_i), where
c_i is the sum of the rates of the steps before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from discreet.accounting.schedules import Schedule, joined
from discreet.core import checks
from discreet.core.errors import InputError
from discreet.plan.clip_rules import ClipRule
from discreet.plan.metrics import Metric
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Rate, Sampling
from discreet.sampling import PoissonSampling

Phases = list[tuple[float, int]]
"""Pairs of a value and the number of steps that it lasts, in order."""


class RatePhase(Frozen):
    """`steps` consecutive steps whose batches are drawn at `rate`."""

    rate: Rate
    steps: Count


def steps_for(steps: int | None, epochs: float | None, per_epoch: Callable[[], float], *, changing: bool) -> int:
    """The declared `steps`, or the least number of them that draws every unit `epochs` times on average.

    `per_epoch`: steps that draw every unit once. `changing`: batches change over the steps, so that epochs do too.
    """
    if epochs is None:
        if steps is None:
            raise InputError("plan: say how long: steps=..., or epochs=... (passes over the data, on average)")
        return steps
    if steps is not None:
        raise InputError("plan: give steps or epochs, not both")
    if changing:
        raise InputError("plan: with batches that change, say steps; epochs would be of several lengths")
    found = checks.positive("epochs", epochs) * per_epoch()
    return max(1, math.ceil(found * (1 - 1e-12)))  # 10 epochs of 1 / 0.01 steps are 1000, not 1001


def rate_phases(batches: Sequence[tuple[float, int]] | Schedule, population: float, steps: int) -> Phases:
    """Rates over the steps, from (expected batch, steps) or a schedule of the expected batch, per epoch or per step."""
    if not isinstance(batches, Schedule):
        return [(_rate(batch, population), checks.count("steps of a batch", count)) for batch, count in batches]
    return joined(_drawn(batches, population, steps))


def _drawn(batches: Schedule, population: float, steps: int) -> Iterator[tuple[int, float, int]]:
    """(t, rate, steps) until `steps` steps are covered."""
    drawn, at = 0.0, 0
    for t in itertools.count():
        rate = _rate(batches.multiplier(t), population)
        lasts = 1 if batches.per_step else max(0, math.ceil((t + 1 - drawn) / rate * (1 - 1e-12)))
        taken = min(lasts, steps - at)
        if taken > 0:
            yield t, rate, taken
        at, drawn = at + taken, drawn + taken * rate
        if at >= steps:
            return


def noise_phases(noise: Schedule, rates: Phases) -> Phases:
    """(multiplier, steps) of a noise schedule, where the rates decide how long epochs are."""
    if noise.per_step:
        return noise.phases(sum(count for _, count in rates), rates[0][0])
    return noise.over(_epochs(rates))


def spread(
    noise: float | Sequence[tuple[float, int]] | Schedule, steps: int, rates: Phases
) -> Sequence[tuple[float, int]]:
    """(multiplier, steps) of the `noise` that `Plan.make` takes: a number, a list of such pairs, or a schedule."""
    if isinstance(noise, Schedule):
        return noise_phases(noise, [(rate, checks.count("steps", count)) for rate, count in rates])
    phases = noise if isinstance(noise, Sequence) else [(noise, steps)]
    if any(not isinstance(phase, Sequence) or len(phase) != 2 for phase in phases):
        raise InputError(
            "plan: noise_multiplier must be a number, a list of (multiplier, steps), or a schedule: "
            "accounting.schedules.parse(TEXT)"
        )
    return phases


def overlaid(
    noise: Sequence[tuple[float, int]], rates: Sequence[tuple[float, int]]
) -> Iterator[tuple[float, float, int]]:
    """(multiplier, rate, steps) of segments in which neither changes. `noise` and `rates` cover the same steps."""
    both = iter(rates)
    rate, rate_left = next(both)
    for multiplier, steps in noise:
        left = steps
        while left > 0:
            if rate_left == 0:
                rate, rate_left = next(both)
            taken = min(left, rate_left)
            yield multiplier, rate, taken
            left, rate_left = left - taken, rate_left - taken


def check_rates(rates: Sequence[RatePhase], sampling: Sampling, steps: int) -> None:
    """Refuse rates that are not for Poisson sampling, miss some steps, or do not begin with the sampler's rate."""
    if not rates:
        return
    if not isinstance(sampling, PoissonSampling):
        raise InputError(f"{sampling.kind} sampling keeps its batches; only poisson batches can change over the steps")
    covered = sum(phase.steps for phase in rates)
    if covered != steps:
        raise InputError(f"the phases of batches cover {covered} steps, but the plan has {steps}")
    if rates[0].rate != sampling.rate:
        raise InputError(f"the first batches are drawn at {rates[0].rate:g}, but sampling says {sampling.rate:g}")


def check_strategy(
    sampling: Sampling, noise: Sequence[object], clipping: ClipRule, metrics: Sequence[Metric], odometer: object
) -> None:
    """Refuse what no theorem covers where noise is correlated over steps: what a unit adds in one step is in releases
    of later steps too, which must have the same noise and clipping, and nothing of that unit between them."""
    if len(sampling.strategy) == 1:
        return
    if len(noise) > 1:
        raise InputError("noise that is correlated over steps has one multiplier; take one phase, no schedule")
    if not clipping.UNCHANGING:
        raise InputError(
            f"{clipping.kind} clipping changes between steps, and noise that is correlated over them needs one clip "
            "norm; use flat, automatic, per_layer or groups"
        )
    if any(metric.rows != "holdout" for metric in metrics):
        raise InputError("no metric of rows to train on can be bought where noise is correlated; use rows='holdout'")
    if odometer is not None:
        raise InputError("no odometer reads runs with correlated noise; leave it out")


def _epochs(rates: Phases) -> Iterator[tuple[int, int, int]]:
    """(t, first step, step after the last) of each epoch that has a step."""
    drawn, begin, at, t = 0.0, 0, 0, 0
    for rate, count in rates:
        left = count
        while left > 0:
            lasts = math.ceil((t + 1 - drawn) / rate * (1 - 1e-12))
            taken = min(left, max(0, lasts))
            at, drawn, left = at + taken, drawn + taken * rate, left - taken
            if drawn >= (t + 1) * (1 - 1e-12):
                if at > begin:
                    yield t, begin, at
                begin, t = at, t + 1
    if at > begin:
        yield t, begin, at


def _rate(batch: float, population: float) -> float:
    return checks.rate("expected batch / population", checks.positive("expected batch", batch) / population)
