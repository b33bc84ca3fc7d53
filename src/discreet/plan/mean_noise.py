"""How much noise is in what an optimizer sees: public before a run."""

from __future__ import annotations

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
    end = 0
    for phase in plan.noise:
        end += phase.steps
        if step < end:
            break
    return phase.multiplier * plan.clipping.sensitivity / plan.expected_batch
