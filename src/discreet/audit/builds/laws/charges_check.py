"""Every release must be charged, with the event of the plan, before any row is read for it."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.audit.builds.following import Trace, each_event, follow
from discreet.audit.builds.small_plans import phases_like, sampling_like, small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome
from discreet.core.errors import InputError
from discreet.plan import Plan, PoissonSampling

ROWS, STEPS, BLOCK = 24, 72, 16
_PHASES = 6


def charge_outcomes(subject: Subject) -> Iterator[Outcome]:
    """A run of several blocks, over the noise multipliers of the plan."""
    try:
        sampling = sampling_like(subject.plan.sampling, ROWS, 0.1)
    except InputError:
        sampling = PoissonSampling(rate=0.1)
    noise, norms = phases_like(subject.plan, _PHASES, STEPS // _PHASES, sampling.sampler(ROWS).period)
    if len(noise) == 1:
        noise, norms = [(noise[0][0], STEPS)], [(norm, STEPS) for norm, _ in norms]
    made = small(subject.plan, sampling, ROWS, sum(n for _, n in noise), noise=noise, norms=norms or None)
    plan = made.model_copy(update={"block": BLOCK})
    with subject.training(plan, subject.maker.units(ROWS, seed=2)) as training:
        trace = follow(training, ledger=True)
    yield _judged(plan, trace)


def _judged(plan: Plan, trace: Trace) -> Outcome:
    name = "charges"
    if trace.failed:
        return Outcome(name, f"the run fails: {trace.failed}", wrong=True)
    wanted = each_event(plan.event())
    period, charged = plan.sampler.period, len(trace.events) * plan.sampler.period
    for what, when in (("read rows", trace.charged_before), ("was taken", dict(enumerate(trace.charged)))):
        early = [step for step, count in when.items() if count < step + 1]
        if early:
            said = f"step {early[0] + 1} {what} when {when[early[0]]} steps were charged; a step is charged first"
            return Outcome(name, said, wrong=True)
    if charged < trace.steps:
        said = f"{trace.steps} steps were taken, and {charged} are in the ledger"
        return Outcome(name, said, wrong=True)
    taken = -(-trace.steps // period)
    other = [place for place in range(taken) if trace.events[place] != wanted[place]]
    if other:
        said = f"step {other[0] * period + 1} was charged as {trace.events[other[0]]}, and the plan says"
        return Outcome(name, f"{said} {wanted[other[0]]}", wrong=True)
    return Outcome(name, f"{trace.steps} steps, each charged as planned before it was drawn")
