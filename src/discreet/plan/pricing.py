"""What a fixed plan costs, at the part of the data where it costs most, and the noise that a budget needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.accounting.account import Method, guarantee
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.answers.tradeoff import TradeOff, from_pairs, trade_off
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event
from discreet.core.guarantee import Guarantee
from discreet.plan import timeline
from discreet.plan.fixed import FixedPlan, P
from discreet.plan.metrics import Part
from discreet.sampling import OVERFLOW

CONFIRMABLE = 1 + 5e-4
"""A plan claims this much more than its bound, so that an accountant with a grid of its own can confirm the claim."""

SET_ASIDE = 1e-9
"""The share of delta that is kept for batches beyond `largest_batch`."""


def parts_of(plan: FixedPlan) -> tuple[tuple[Part, ...], ...]:
    """The parts of the data of which a change of one unit touches one: that of training first, or both together."""
    if plan.holdout is None or plan.adjacency is Adjacency.REPLACE_ONE:
        return (("training", "holdout"),)
    return ("training",), ("holdout",)


def apart(plan: FixedPlan, trial: Event) -> tuple[Event, ...]:
    """What a plan releases of which one run releases `trial`, by the parts of the data of which a unit is in one."""
    return (trial,) if plan.search is None else plan.search.events(trial)


def searched(plan: FixedPlan, trial: Event) -> Event:
    """The same as one event: where there are several parts, more than any unit is in."""
    found = apart(plan, trial)
    return found[0] if len(found) == 1 else Compose(found)


def runs(plan: FixedPlan) -> int:
    """How many runs of a plan a unit may take part in, on average, rounded up."""
    return 1 if plan.search is None else plan.search.runs


def first_guarantee(
    plan: FixedPlan, count: int, delta: float, method: Method, tolerance: Callable[[float], float]
) -> Guarantee:
    """That of the first `count` charged steps: the largest epsilon of any part, and the largest lower bound.

    Of a search: if each trial stopped after so many steps. Nothing is known of it from below.
    """
    found = [
        _priced(event, delta, plan.adjacency, method, tolerance)
        for parts in parts_of(plan)
        for event in apart(plan, timeline.first_steps(plan, count, parts))
    ]
    worst = max(found, key=lambda part: part.epsilon)
    if plan.search is not None:
        return replace(worst, lower=None, method=plan.search.THEOREM or worst.method)
    known = [part.lower for part in found if part.lower is not None]
    return replace(worst, lower=max(known) if len(known) == len(found) else None)


def trade_off_of(plan: FixedPlan) -> TradeOff:
    """The trade-off function of all steps; of a search over parts of the data, the worst of any part's.

    With a holdout, that of both parts together, which is more than any unit is in.
    """
    curves = [trade_off(event, plan.adjacency) for event in apart(plan, plan.first_steps(plan.charges))]
    if len(curves) == 1:
        return curves[0]
    epsilons = np.unique(np.abs(np.concatenate([curve.lines[0] for curve in curves])))
    return from_pairs(epsilons, np.max([curve.delta(epsilons) for curve in curves], axis=0))


_priced = lru_cache(maxsize=64)(guarantee)
"""A run asks for the price of the same steps several times."""


def calibrated(plan: P, epsilon: float) -> P:
    """The plan with its steps' noise scaled to the smallest that meets (epsilon, plan.delta). It is remembered."""
    found: P = _calibrated(plan, epsilon)
    return found


@lru_cache(maxsize=64)
def _calibrated(plan: Any, epsilon: float) -> Any:
    if plan.search is not None:
        alone = plan.model_copy(update={"search": None})
        return plan.search.within(lambda one_run: _calibrated(alone, one_run), epsilon)
    delta, parts = plan.delta * (1 - 2 * SET_ASIDE), parts_of(plan)
    target = epsilon / (CONFIRMABLE * (1 + 2.0**-50))
    for part in parts:
        bought = timeline.first_steps(plan, plan.charges, part, steps=False)
        cost = guarantee(bought, delta, plan.adjacency).epsilon
        if not cost < target:
            what = "queries and metrics" if plan.before else "metrics"
            raise InputError(f"the {what} alone cost epsilon {cost:.4g} of {epsilon:g}; buy fewer, or with more noise")
    scale, _ = calibrate_noise(
        lambda s: timeline.first_steps(plan.scaled(s), plan.charges, parts[0]), target, delta, plan.adjacency
    )
    return plan.scaled(scale)


def reserve_for(delta: float, overflows: bool) -> float:
    """What is set aside of delta; nothing where batches have a largest size."""
    return SET_ASIDE * delta if overflows else 0.0


def covers(reserve: float, steps: int, epsilon: float) -> bool:
    """Whether `reserve` covers what `steps` steps add at most to delta: (1 + e^epsilon) steps `OVERFLOW`."""
    return bool(math.log(steps * OVERFLOW) + np.logaddexp(0.0, epsilon) <= math.log(reserve))
