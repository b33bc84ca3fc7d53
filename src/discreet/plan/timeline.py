"""The order of a fixed plan's releases: queries, then the periods of its sampler with private metrics between them.

A place in this order is a charged step: a step of training, a private metric, or a query before the first step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from discreet.core.errors import BudgetExhausted, LedgerError, PrivacyViolation
from discreet.core.events import Compose, Event, Gaussian, Repeat
from discreet.plan.batches import overlaid
from discreet.plan.fixed import FixedPlan, NoisePhase
from discreet.plan.metrics import Metric, Part
from discreet.sampling import PoissonSampler

UNANSWERED = "the plan has queries before its first step that the run has not answered; see training.answered_first"


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` equal events in a row, each of `places` charged steps. `metric`: the private metric that they buy, if
    any.

    `before`: they are queries that are answered before the first step.
    """

    event: Event
    count: int
    places: int
    metric: Metric | None = None
    before: bool = False

    @property
    def steps(self) -> int:
        """The number of places that are steps of training."""
        return self.length if self.metric is None and not self.before else 0

    @property
    def length(self) -> int:
        """The number of charged steps that it covers."""
        return self.count * self.places


@lru_cache(maxsize=32)
def order(plan: FixedPlan) -> tuple[Segment, ...]:
    """The whole plan, in order."""
    first = (Segment(event, 1, 1, before=True) for event in plan.before)
    return (*first, *_with_metrics(plan))


def first_steps(
    plan: FixedPlan, count: int, parts: Sequence[Part] = ("training", "holdout"), *, steps: bool = True
) -> Event:
    """Events of the first `count` charged steps on these parts of the data; a period that has begun counts whole.

    Without `steps`: private metrics alone. Queries before the first step are about all parts.
    """
    found: list[Event] = []
    left = count
    for segment in order(plan):
        if left <= 0:
            break
        taken = min(segment.count, math.ceil(left / segment.places))
        left -= taken * segment.places
        part: Part = "training" if segment.metric is None else segment.metric.rows
        if segment.before or (part in parts and (steps or segment.metric is not None)):
            found.append(Repeat(segment.event, taken))
    return Compose(tuple(found))


def whole_periods(plan: FixedPlan, count: int) -> int:
    """The number of charged steps among the first `count` up to the end of the last period that is complete."""
    begin = 0
    for segment in order(plan):
        if count < begin + segment.length:
            return count - (count - begin) % segment.places
        begin += segment.length
    return begin


def last_step(plan: FixedPlan) -> int:
    """The number of charged steps up to the last step of training, itself included; metrics may follow it."""
    ends = itertools.accumulate(segment.length for segment in order(plan))
    return max(end for end, segment in zip(ends, order(plan), strict=True) if segment.steps)


def next_block(plan: FixedPlan, position: int) -> tuple[Event, ...]:
    """Events of the next block, when `position` steps are charged already; `BudgetExhausted` at the end of the plan.

    The k-th charged step always uses the k-th event of the plan, so the charged events are a prefix of the plan. A
    block has one or more whole periods, and a metric belongs to the block of the step before it.
    """
    if position < len(plan.before):
        raise PrivacyViolation(UNANSWERED)
    events: list[Event] = []
    room, begin = max(1, plan.block // plan.sampler.period), 0
    for segment in order(plan):
        done, inside = divmod(min(max(0, position - begin), segment.length), segment.places)
        if inside:
            raise LedgerError(f"{position} steps are charged, which is no whole number of periods of the sampler")
        begin += segment.length
        if begin <= position:
            continue
        left = segment.count - done
        taken = left if segment.metric is not None else min(left, room)
        events.extend([segment.event] * taken)
        if segment.metric is None:
            room -= taken
        if taken < left:
            break
    if not events:
        raise BudgetExhausted(f"all {begin} steps of the plan are charged")
    return tuple(events)


def metric_at(plan: FixedPlan, position: int) -> Metric | None:
    """The metric that is bought at a place; None for a step of training."""
    if not plan.metrics:
        return None
    end = 0
    for segment in order(plan):
        end += segment.length
        if position < end:
            return segment.metric
    return None


def step_at(plan: FixedPlan, position: int) -> int:
    """The number of training steps before a place, which is the number of charged steps before it."""
    if not plan.metrics:
        return max(0, position - len(plan.before))
    steps = end = 0
    for segment in order(plan):
        steps += min(segment.steps, max(0, position - end))
        end += segment.length
    return steps


def purchases_of(metric: Metric, steps: int) -> int:
    """The number of times that a metric is bought in so many steps of training."""
    return 1 if metric.every is None else steps // metric.every


def sizes_first(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics in the order in which they are bought at one time."""
    return sorted(metrics, key=lambda metric: metric.kind != "size")


def _with_metrics(plan: FixedPlan) -> Iterator[Segment]:
    period, steps, whole, metrics = plan.sampler.period, 0, plan.steps, sizes_first(plan.metrics)
    for event, count in _periods(plan):
        left = count
        while left > 0:
            due = min([whole, *(_next_due(metric, metrics, whole, steps) for metric in metrics)])
            taken = min(left, (due - steps) // period)
            yield Segment(event, taken, period)
            left, steps = left - taken, steps + taken * period
            for metric in metrics:
                if steps == _next_due(metric, metrics, whole, steps - 1):
                    yield Segment(metric.event, 1, 1, metric)


def _next_due(metric: Metric, metrics: Sequence[Metric], whole: int, steps: int) -> int:
    """The first step after `steps` at which the metric is bought; a step beyond the `whole` plan if there is none."""
    if metric.kind == "size":
        others = [other for other in metrics if other.rows == metric.rows and other.kind != "size"]
        first = min(_next_due(other, metrics, whole, 0) for other in others)
        return first if first > steps else whole + 1
    if metric.every is None:
        return whole
    return (steps // metric.every + 1) * metric.every


def _periods(plan: FixedPlan) -> Iterator[tuple[Event, int]]:
    """Events of the sampler's periods, in order, with equal neighbours counted together."""
    sampler = plan.sampler
    if plan.rates:
        noise = [(phase.multiplier, phase.steps) for phase in plan.noise]
        for multiplier, rate, steps in overlaid(noise, [(phase.rate, phase.steps) for phase in plan.rates]):
            yield PoissonSampler(rate).event(Gaussian(multiplier)), steps
        return
    if sampler.period == 1:
        for phase in plan.noise:
            yield sampler.event(Gaussian(phase.multiplier)), phase.steps
        return
    for inner, equal in itertools.groupby(_cut(plan.noise, sampler.period)):
        yield sampler.event(inner), len(list(equal))


def _cut(noise: Sequence[NoisePhase], period: int) -> Iterator[Event]:
    """The event of each period of `period` steps, as in `Epoch.event`."""
    parts: list[Event] = []
    room = period
    for phase in noise:
        left = phase.steps
        while left > 0:
            taken = min(left, room)
            parts.append(Repeat(Gaussian(phase.multiplier), taken))
            left, room = left - taken, room - taken
            if room == 0:
                yield Compose(tuple(parts))
                parts, room = [], period
