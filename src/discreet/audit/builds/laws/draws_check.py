"""Draws of runs against the law of the sampler that the plan names. A step draws the units whose rows it reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.audit.builds.following import follow
from discreet.audit.builds.laws.draw_laws import cyclic, impossible, law_of, tests
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.small_plans import sampling_like, small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome, together
from discreet.core.array_types import BoolArray
from discreet.core.errors import DiscreetError, InputError
from discreet.plan import Plan
from discreet.sampling import CyclicPoissonSampling, SamplingRecord

UNITS, STEPS, SHARE = 60, 120, 0.25
_MORE = 1.2
"""A data set of private size is tried again with so many times the units: the sampling rate must stay what it was."""


def draw_outcomes(subject: Subject, *, steps: int) -> Iterator[Outcome]:
    """Two runs on as many units as are declared, and two on more, taken when their outcome is asked for."""
    try:
        sampling = sampling_like(subject.plan.sampling, UNITS, SHARE)
        if not isinstance(sampling, CyclicPoissonSampling) and law_of(sampling, UNITS) is None:
            raise InputError(f"the audit does not know the law of {sampling.kind} sampling")
    except InputError as error:
        yield Outcome("draws", "not looked at", notice=f"{error}, so draws are not looked at")
        return
    plan = small(subject.plan, sampling, UNITS, max(steps, 16 * sampling.sampler(UNITS).period))
    sizes = {"draws": UNITS}
    if not sampling.SIZE_IS_PUBLIC:
        sizes["draws, more units than declared"] = int(_MORE * UNITS)
    for name, units in sizes.items():
        try:
            yield _of_two_runs(name, subject, plan, units)
        except DiscreetError as error:
            yield Outcome(name, "not looked at", notice=f"{error}, so draws are not looked at")
            return


def _of_two_runs(name: str, subject: Subject, plan: Plan, units: int) -> Outcome:
    rows = subject.maker.units(units, seed=6)
    found = [_drawn(subject, plan, rows) for _ in range(2)]
    wrong = next((one for one in found if isinstance(one, str)), None)
    if wrong is not None:
        return Outcome(name, wrong, wrong=True)
    one, other = (run for run in found if not isinstance(run, str))
    return _outcome(name, plan.sampling, one, other)


def _outcome(name: str, sampling: SamplingRecord, one: BoolArray, other: BoolArray) -> Outcome:
    periods, slots, units = one.shape
    if isinstance(sampling, CyclicPoissonSampling):
        wrong, parts = cyclic(sampling, one, other)
    else:
        law = law_of(sampling, units)
        assert law is not None
        wrong, parts = impossible(law, one) or impossible(law, other), list(tests(law, one, other))
    if wrong is not None:
        return Outcome(name, f"{wrong}; the plan says {sampling.kind} sampling", wrong=True)
    said = f"{int(one.sum())} draws in {periods * slots} steps of {units} units, by {sampling.kind} sampling"
    return together(name, parts, said) if parts else Outcome(name, f"{said}: all, every time")


def _drawn(subject: Subject, plan: Plan, rows: MadeUp) -> BoolArray | str:
    """The units that took part, shape (periods, slots, units); or a sentence on why that is not known."""
    owners = rows.owners()
    with subject.training(plan, rows) as training:
        trace = follow(training, still=True)
    if trace.rows != len(owners):
        raise InputError(f"a pipeline makes {trace.rows} rows of {len(owners)}")
    if trace.failed or trace.steps != plan.steps:
        return trace.failed or f"{trace.steps} of {plan.steps} steps released something"
    drawn = np.zeros((plan.steps, rows.units), np.bool_)
    for step, read in enumerate(trace.read):
        if len(np.unique(read)) < len(read):
            return f"a row is used {int(np.bincount(read).max())} times in step {step + 1}; allowed 1"
        several = np.bincount(owners[read], minlength=rows.units) if len(read) else np.zeros(1, np.int64)
        if several.max() > plan.rows_per_unit:
            return f"{int(several.max())} rows of a user are used in step {step + 1}; allowed {plan.rows_per_unit}"
        drawn[step, owners[read]] = True
    period = plan.sampler.period
    return drawn.reshape(-1, period, rows.units)
