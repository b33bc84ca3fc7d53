"""`assert_private`: a test fails where a training, or a step of anyone, does not do what is claimed of it."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, cast

from discreet.audit import FALSE_ALARM, Audit, Subject, audit_build
from discreet.audit.builds.factory import subject_from
from discreet.core.errors import InputError
from discreet.testing.made_neighbours import Rows
from discreet.testing.step_checks import Draws, Make, StepClaim, draw_outcomes, step_outcomes
from discreet.training import Training


def assert_private(
    made: object,
    *,
    rows: Rows | None = None,
    sensitivity: float | None = None,
    noise: float | None = None,
    draws: Draws | None = None,
    rate: float | None = None,
    effort: float = 1.0,
    false_alarm: float = FALSE_ALARM,
) -> Audit:
    """Audit a training or a step; `AssertionError`, with every outcome, if something is found. Passing is evidence
    beside a proof, never a guarantee.

    - A `Training`, or a function without required parameters that returns one: audited as `discreet audit build` does
    it, on made-up rows; nothing is charged to its run.
    - `make(inputs, targets)`, a function that is given a data set and returns `step(inputs, targets)`, which is given a
    batch and returns what is released (`testing.step_checks`). Then give `rows` (inputs and targets, made up or public;
    about 40), the `sensitivity` and the `noise` that are claimed of what is released (`StepClaim`), and if draws are to
    be looked at, `draws` and `rate` (`step_checks.draw_outcomes`).

    A sound training or step fails with probability at most `false_alarm`. What could not be looked at is a warning, and
    `InputError` says what is missing.
    """
    if isinstance(made, Training):
        found = audit_build(Subject.of(made), false_alarm=false_alarm, effort=effort)
    elif rows is None:
        if not callable(made) or _required(made):
            raise InputError("give a Training, a function that returns one, or make(inputs, targets) with rows")
        found = audit_build(subject_from(made, "the function"), false_alarm=false_alarm, effort=effort)
    else:
        if sensitivity is None or noise is None or (draws is None) != (rate is None):
            raise InputError("of a step, give sensitivity and noise as claimed; draws and rate go together")
        outcomes = step_outcomes(cast(Make, made), rows, StepClaim(sensitivity, noise), effort)
        if draws is not None and rate is not None:
            outcomes += draw_outcomes(draws, rate)
        found = Audit(tuple(outcomes), false_alarm)
    if not found.passed:
        raise AssertionError(f"not private as claimed\n{found}")
    for one in found.outcomes:
        if one.notice:
            warnings.warn(f"{one.name}: {one.notice}", stacklevel=2)
    return found


def _required(made: Any) -> list[str]:
    return [name for name, one in inspect.signature(made).parameters.items() if one.default is inspect.Parameter.empty]
