"""Private metrics: how far one unit moves them, their noise, how many units they look at, and that they are charged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from discreet.audit import tails
from discreet.audit.builds.audit_stream import FreshNoise
from discreet.audit.builds.canaries import Canary, canaries
from discreet.audit.builds.following import Trace, each_event, follow
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.small_plans import adding_one, small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome, together
from discreet.core.array_types import Array
from discreet.core.errors import DiscreetError, first_line
from discreet.plan import Metric, Plan, PoissonSampling
from discreet.plan.metrics import size_for
from discreet.randomness import Stream, TestStream

ROWS, PURCHASES = 24, 40
_TOLERANCE = 1e-6
_SHOWN = ("ordinary", "loud", "overflowing", "one token", "mislabelled", "far off")


def metric_outcomes(subject: Subject) -> Iterator[Outcome]:
    """Runs that buy the plan's metrics after every few steps; nothing if it buys none. Metrics of held-out rows are
    bought of those to train on, by the same code. Runs are taken when their outcome is asked for."""
    if not subject.plan.metrics:
        return
    plan, rows = _plan(subject), subject.maker.units(ROWS, seed=8)
    names = [one.name for one in plan.metrics if one.kind != "size"]
    base = _bought(subject, plan, rows, TestStream(5), None)
    if base.failed or not base.bought:
        yield Outcome("metrics", f"the run fails: {base.failed}", wrong=True)
        return
    yield _charged(plan, base)
    for canary in canaries(subject.maker, rows, subject.classes):
        if canary.name in _SHOWN:
            yield _moved(subject, plan, rows, canary, base)
    for one in plan.metrics:
        if one.name in names and one.rate is not None:
            yield _looked_at(subject, plan, rows, one, base)
    yield _noise(subject, plan, rows)


def _plan(subject: Subject) -> Plan:
    sampling = adding_one(subject.plan, ROWS, 0.2)
    if len(sampling.strategy) > 1:
        sampling = PoissonSampling(rate=0.2)
    every = sampling.sampler(ROWS).period
    bought: dict[str, Metric] = {}
    for one in subject.plan.metrics:
        made = one.model_copy(update={"rows": "training", "every": None if one.kind == "size" else every})
        bought.setdefault(made.name, made)
    return small(subject.plan, sampling, ROWS, every * PURCHASES, metrics=list(bought.values()))


def _bought(subject: Subject, plan: Plan, rows: MadeUp, stream: Stream, lead: Trace | None) -> Trace:
    with subject.training(plan, rows, stream=stream, watch=False) as training:
        return follow(training, lead)


def _sums(plan: Plan, metric: Metric, trace: Trace) -> Array:
    """The noisy sums behind the values of a metric, centred; shape (purchases,)."""
    size = size_for(metric, plan.metrics)
    divisor = plan.units_of(metric)[0] if size is None else _values(trace, size.name)[0]
    rate = 1.0 if metric.rate is None else metric.rate
    if metric.kind == "size":
        return _values(trace, metric.name)
    found: Array = (_values(trace, metric.name) - metric.centre) * max(1.0, divisor) * rate
    return found


def _values(trace: Trace, name: str) -> Array:
    return np.array([one.value for one in trace.bought if one.metric == name])


def _charged(plan: Plan, trace: Trace) -> Outcome:
    name, wanted = "metrics/charges", each_event(plan.event())
    if trace.events != wanted:
        said = f"{len(trace.events)} releases are charged, or others than the {len(wanted)} that the plan says"
        return Outcome(name, said, wrong=True)
    return Outcome(name, f"{len(trace.bought)} metrics and {trace.steps} steps, each charged as planned")


def _moved(subject: Subject, plan: Plan, rows: MadeUp, canary: Canary, base: Trace) -> Outcome:
    """The distance by which one more unit moves each metric, with the same randomness and at the same weights."""
    name = f"metrics/{canary.name}"
    try:
        other = _bought(subject, plan, rows.with_unit(canary.inputs, canary.targets), TestStream(5), base)
    except DiscreetError as error:
        return Outcome(name, f"such a unit is refused before anything is charged: {first_line(error)}")
    if other.failed or [one.metric for one in other.bought] != [one.metric for one in base.bought]:
        return Outcome(name, f"one unit changes which metrics are bought: {other.failed}", wrong=True)
    worst = {one.name: float(_apart(plan, one, base, other).max()) for one in plan.metrics}
    most = max(worst, key=worst.__getitem__)
    said = f"one unit moves {most} by {worst[most]:.4g} of what it may"
    return Outcome(name, said, wrong=not worst[most] <= 1 + _TOLERANCE, figures={"moved": worst[most]})


def _apart(plan: Plan, metric: Metric, one: Trace, other: Trace) -> Array:
    with np.errstate(all="ignore"):
        apart = np.abs(_sums(plan, metric, other) - _sums(plan, metric, one)) / metric.contribution
    return np.where(np.isnan(apart), np.inf, apart)


def _looked_at(subject: Subject, plan: Plan, rows: MadeUp, metric: Metric, base: Trace) -> Outcome:
    """A unit must be looked at no oftener than its rate says. Other randomness than in other checks."""
    canary = canaries(subject.maker, rows, subject.classes)[0]
    without, having = rows, rows.with_unit(canary.inputs, canary.targets)
    one = _bought(subject, plan, without, TestStream(6), base)
    other = _bought(subject, plan, having, TestStream(6), base)
    assert metric.rate is not None
    looked = int((_apart(plan, metric, one, other) > 1e-3).sum())
    count = len(_values(one, metric.name))
    said = f"a unit moves {metric.name} {looked} of {count} times, and is paid for at a rate of {metric.rate:g}"
    return Outcome(f"metrics/rate of {metric.name}", said, p=tails.at_least(looked, count, metric.rate))


def _noise(subject: Subject, plan: Plan, rows: MadeUp) -> Outcome:
    """The noise of each metric, from two runs with the same draws and fresh noise: its scale, and that of the change
    from one purchase to the next."""
    one = _bought(subject, plan, rows, FreshNoise(13), None)
    other = _bought(subject, plan, rows, FreshNoise(13), one)
    name = "metrics/noise"
    if one.failed or other.failed:
        return Outcome(name, f"the run fails: {one.failed or other.failed}", wrong=True)
    parts: list[tuple[str, float]] = []
    seen: list[float] = []
    for metric in plan.metrics:
        scale = metric.noise * metric.contribution * np.sqrt(2)
        apart = (_sums(plan, metric, other) - _sums(plan, metric, one)) / scale
        if metric.kind != "size":
            seen.append(float(np.sqrt(np.mean(np.square(apart)))))
        parts.append(_less(f"{metric.name} has too little", apart))
        steps = apart[: len(apart) // 2 * 2].reshape(-1, 2)
        if len(steps):
            parts.append(_less(f"{metric.name} changes too little", (steps[:, 1] - steps[:, 0]) / np.sqrt(2)))
    said = f"noise of metrics is {min(seen):.3f} to {max(seen):.3f} times what is paid for, over {len(other.bought)}"
    return together(name, parts, said, least=min(seen))


def _less(what: str, standard: Sequence[float] | Array) -> tuple[str, float]:
    return what, tails.less_spread(float(np.square(standard).sum()), len(standard))
