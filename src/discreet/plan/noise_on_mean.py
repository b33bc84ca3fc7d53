"""The noise in the noisy mean that an optimizer sees. It is public before a run."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.core.errors import InputError
from discreet.plan.plan import Plan


def mean_noise(plan: Plan, step: int = 0) -> float:
    """Standard deviation of the noise in every coordinate of the noisy mean of a step (counted from 0).

    Multiplier of the step's phase x clip norm / divisor (the expected batch). A run's sums have a float slack, by which
    sensitivity and noise are a little larger (with the engine `exact`: one part in 10^8, others: up to a thousandth).
    Use it to choose learning rates and the `floor` of `DPAdamBC`; training tells that optimizer the exact figure.
    """
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < plan.steps:
        raise InputError(f"step must be 0 to {plan.steps - 1}, a step of the plan, got {step!r}")
    return value_at(plan.multipliers, step) * _norm(plan, step) / value_at(plan.batches, step)


def mean_noises(plan: Plan) -> list[float]:
    """`mean_noise` of every step of training, in order."""
    multipliers = each_step(plan.multipliers)
    batches = each_step(plan.batches)
    return [
        multiplier * _norm(plan, step) / batch
        for step, (multiplier, batch) in enumerate(zip(multipliers, batches, strict=True))
    ]


def each_step(phases: Sequence[tuple[float, int]]) -> list[float]:
    """The value of each step."""
    return [value for value, count in phases for _ in range(count)]


def value_at(phases: Sequence[tuple[float, int]], step: int) -> float:
    """The value of one step, counted from 0; that of the last one after all."""
    for value, count in phases:
        if step < count:
            return value
        step -= count
    return phases[-1][0]


def _norm(plan: Plan, step: int) -> float:
    norm = plan.clipping.norm_at(step)
    if norm is None:
        raise InputError(
            f"with {plan.clipping.kind} clipping the noise follows from the model or the run, not the plan alone"
        )
    return norm
