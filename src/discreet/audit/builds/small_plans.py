"""Small plans like the one that is audited: few made-up rows and few steps, with its clipping, noise, unit and sampler.

What privacy depends on at a step stays: the clip rule, the noise multipliers, the unit, the kind of sampler. Sizes
become those of made-up data: a batch is a share of few rows, an epoch has few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, IndividualSampling, Plan
from discreet.plan.batches import overlaid
from discreet.plan.clip_rules import (
    AdaptiveClipping,
    AutomaticClipping,
    ClipRule,
    EllipsoidClipping,
    FlatClipping,
    GroupClipping,
    PerLayerClipping,
)
from discreet.plan.clip_rules.scheduled import ScheduledClipping
from discreet.sampling import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    NoSampling,
    PoissonSampling,
    SamplingRecord,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

NOBODY = 1e-9
"""A rate at which nobody is drawn: 24 rows in 80 steps have one draw in half a million audits."""

_SLOTS = 8
"""The most steps of a period of a small plan, unless its noise is correlated over more."""

Phase = tuple[float, int]
"""A value, and for how many steps it holds."""


def small(
    plan: Plan | AdaptivePlan,
    sampling: SamplingRecord,
    rows: int,
    steps: int,
    *,
    noise: Sequence[Phase] | None = None,
    norms: Sequence[Phase] | None = None,
    **more: Any,
) -> Plan:
    """A plan for so many units and about so many steps (whole periods), with the clipping and noise of the first step,
    unless phases of `noise` or of clip `norms` are given."""
    period = sampling.sampler(rows).period
    steps = -(-steps // period) * period
    near = plan.adjacency if plan.adjacency in sampling.ADJACENCIES else sampling.ADJACENCIES[0]
    given: dict[str, Any] = {"clipping": clip_rule(plan.clipping)} if norms is None else {"clip_norm": list(norms)}
    return Plan.make(
        sampling,
        population=rows,
        steps=steps,
        delta=plan.delta,
        noise_multiplier=plan.multipliers[0][0] if noise is None else list(noise),
        adjacency=near,
        unit=plan.unit,
        rows_per_unit=plan.rows_per_unit,
        **(given | more),
    )


def clip_rule(rule: ClipRule) -> ClipRule:
    """The rule; of norms that change by a schedule the first."""
    return FlatClipping(norm=rule.first_norm) if isinstance(rule, ScheduledClipping) else rule


def rescaled_rule(rule: ClipRule, times: float) -> ClipRule | None:
    """The rule with norms so many times as large; None for a rule without norms."""
    one = clip_rule(rule)
    if isinstance(one, GroupClipping):
        return one.model_copy(update={"norms": {key: times * norm for key, norm in one.norms.items()}})
    if isinstance(one, AdaptiveClipping):
        return one.model_copy(update={"initial": min(one.cap, max(one.floor, times * one.initial))})
    if isinstance(one, FlatClipping | AutomaticClipping | PerLayerClipping | EllipsoidClipping):
        return one.model_copy(update={"norm": times * one.norm})
    return None


def sampling_like(sampling: SamplingRecord, rows: int, share: float) -> SamplingRecord:
    """The same kind of sampler, which draws about a `share` of `rows` units at a step (an individual or full batch
    draws all). `InputError` for a sampler that the library does not know."""
    make = _SMALL.get(type(sampling))
    if make is None:
        raise InputError(f"the audit knows no small plan with {sampling.kind} sampling")
    return make(sampling, rows, share)


def _truncated(sampling: Any, rows: int, share: float) -> SamplingRecord:
    """One draw in five or so is cut."""
    mean = share * rows
    return TruncatedPoissonSampling(rate=share, capacity=max(1, round(mean + 0.8 * (mean * (1 - share)) ** 0.5)))


def _allocation(sampling: Any, rows: int, share: float) -> SamplingRecord:
    period = min(sampling.period, max(2, round(1 / share)), _SLOTS)
    if sampling.chosen == 1:
        return AllocationSampling(period=period)
    return AllocationSampling(period=max(3, period), chosen=min(2, sampling.chosen))


def _individual(sampling: Any, rows: int, share: float) -> SamplingRecord:
    period = min(sampling.period, 6)
    return IndividualSampling(period=period, full=min(period, max(1, round(period * sampling.full / sampling.period))))


_SMALL: dict[type, Callable[[Any, int, float], SamplingRecord]] = {
    PoissonSampling: lambda _, rows, share: PoissonSampling(rate=share),
    TruncatedPoissonSampling: _truncated,
    FixedSizeSampling: lambda _, rows, share: FixedSizeSampling(batch=max(1, round(share * rows))),
    ShuffleSampling: lambda _, rows, share: ShuffleSampling(batch=max(1, round(share * rows))),
    AllocationSampling: _allocation,
    CyclicPoissonSampling: lambda one, rows, share: CyclicPoissonSampling(
        rate=min(1.0, share * one.parts), coefficients=one.coefficients
    ),
    IndividualSampling: _individual,
    NoSampling: lambda _, rows, share: NoSampling(),
}


def adding_one(plan: Plan | AdaptivePlan, rows: int, share: float) -> SamplingRecord:
    """A sampler under which one unit may come without another going: the plan's own kind, or Poisson in its place."""
    if isinstance(plan.sampling, TruncatedPoissonSampling):
        return TruncatedPoissonSampling(rate=share, capacity=2 * rows)  # a batch that is cut may lose another unit
    try:
        own = sampling_like(plan.sampling, rows, share)
    except InputError:
        return PoissonSampling(rate=share)
    return PoissonSampling(rate=share) if own.SIZE_IS_PUBLIC or Adjacency.ADD_REMOVE not in own.ADJACENCIES else own


def nobody(plan: Plan | AdaptivePlan) -> SamplingRecord:
    """A sampler that draws nobody, with the plan's correlation of noise."""
    if isinstance(plan.sampling, CyclicPoissonSampling):
        return CyclicPoissonSampling(rate=NOBODY, coefficients=plan.sampling.coefficients)
    return PoissonSampling(rate=NOBODY)


def phases_like(plan: Plan | AdaptivePlan, most: int, steps: int, period: int) -> tuple[list[Phase], list[Phase]]:
    """(noise multipliers, clip norms) of up to `most` phases of the plan, the first and the last among them, each for
    `steps` steps, in whole periods. Norms are empty unless they follow a schedule."""
    rule, each = plan.clipping, -(-steps // period) * period
    noise: list[Phase] = list(plan.multipliers)
    norms = [(one.norm, one.steps) for one in rule.phases] if isinstance(rule, ScheduledClipping) else []
    both = [one[:2] for one in overlaid(noise, norms or [(0.0, sum(count for _, count in noise))])]
    places = sorted({round(i * (len(both) - 1) / max(1, most - 1)) for i in range(most)})
    chosen = [both[place] for place in places]
    if len(plan.sampling.strategy) > 1:
        chosen = chosen[:1]  # which has one multiplier
    return [(one, each) for one, _ in chosen], [(norm, each) for _, norm in chosen] if norms else []
