"""The price of a fixed plan (that of the dearest part of the data), and the noise that a budget needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.accounting.account import Method, guarantee
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import TradeOff, from_pairs
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, SparseHistogram
from discreet.core.guarantee import Guarantee
from discreet.core.rounding import CONFIRMABLE, rounded_up
from discreet.plan import timeline
from discreet.plan.fixed import FixedPlan, P
from discreet.plan.metrics import Part
from discreet.sampling import OVERFLOW

LEAST = 1e-12
"""The least epsilon that a plan claims. Where 0 is proved, another accountant may compute 1e-15, by rounding."""

SET_ASIDE = 1e-9
"""The share of delta that is kept for batches beyond `largest_batch`."""


def parts_of(plan: FixedPlan) -> tuple[tuple[Part, ...], ...]:
    """Events on each part of the data, where one unit is in one part only: training first, then the hold-out; or all
    events together."""
    if plan.holdout is None or plan.adjacency is Adjacency.REPLACE_ONE:
        return (("training", "holdout"),)
    return ("training",), ("holdout",)


def events_by_part(plan: FixedPlan, trial: Event) -> tuple[Event, ...]:
    """Events of a tuning plan whose single run releases `trial`, one per disjoint part of the data."""
    return (trial,) if plan.search is None else plan.search.events(trial)


def one_event(plan: FixedPlan, trial: Event) -> Event:
    """Events of all parts together as one event: where there are several parts, more than any unit takes part in."""
    found = events_by_part(plan, trial)
    return found[0] if len(found) == 1 else Compose(found)


def runs(plan: FixedPlan) -> int:
    """The average number of runs of a plan that a unit may take part in, rounded up."""
    return 1 if plan.search is None else plan.search.runs


def first_guarantee(
    plan: FixedPlan, count: int, delta: float, method: Method, tolerance: Callable[[float], float]
) -> Guarantee:
    """The guarantee of the first `count` charged steps: the largest epsilon of any part, and the largest lower bound.

    Of a search: as if each trial stopped after `count` steps. It has no lower bound.
    """
    found = [
        _priced(event, delta, plan.adjacency, method, tolerance)
        for parts in parts_of(plan)
        for event in events_by_part(plan, timeline.first_steps(plan, count, parts))
    ]
    worst = max(found, key=lambda part: part.epsilon)
    if plan.search is not None:
        return replace(worst, lower=None, method=plan.search.THEOREM or worst.method)
    known = [part.lower for part in found if part.lower is not None]
    return replace(worst, lower=max(known) if len(known) == len(found) and _attained(plan) else None)


def _attained(plan: FixedPlan) -> bool:
    """Whether some two neighbouring data sets are the worst for all events of the plan, as its lower bound assumes.

    A replaced unit is in one part of the data, or moves from one to the other. Neither it nor a zeroed one changes the
    number of rows. A histogram shows a value that as many rows as its threshold have; a replaced row moves two values.
    """
    replaced = plan.adjacency is Adjacency.REPLACE_ONE
    sizes = any(one.kind == "size" for one in plan.metrics) and plan.adjacency is not Adjacency.ADD_REMOVE
    if sizes or (replaced and plan.holdout is not None):
        return False
    shown = [one.threshold + 40 * one.noise_multiplier for one in plan.before if isinstance(one, SparseHistogram)]
    return all((2 if replaced else 1) * rows <= plan.population for rows in shown)


def trade_off_of(plan: FixedPlan) -> TradeOff:
    """The trade-off function of all steps; where the data has parts, the worst over them, and no test is known."""
    every = [timeline.first_steps(plan, plan.charges, parts) for parts in parts_of(plan)]
    curves = [trade_off(event, plan.adjacency) for steps in every for event in events_by_part(plan, steps)]
    if len(curves) == 1 and _attained(plan):
        return curves[0]
    epsilons = np.unique(np.abs(np.concatenate([curve.lines[0] for curve in curves])))
    return from_pairs(epsilons, np.max([curve.delta(epsilons) for curve in curves], axis=0))


_priced = lru_cache(maxsize=64)(guarantee)
"""Remembered, because a run asks for the price of the same steps several times."""


def calibrated(plan: P, epsilon: float) -> P:
    """The plan with its steps' noise scaled to the smallest that meets (epsilon, plan.delta). It is remembered."""
    if not epsilon >= LEAST:
        raise InputError(f"no plan claims an epsilon below {LEAST:g}, got {epsilon:g}; ask for a larger one")
    refuse_unproved(plan.delta, plan.sampling.OVERFLOWS, plan.steps * runs(plan), epsilon)
    found: P = _calibrated(plan, epsilon)
    return found


def refuse_unproved(delta: float, overflows: bool, steps: int, epsilon: float) -> None:
    """Refuse an epsilon that what is set aside of delta does not cover: the guarantee of its plan would be infinite."""
    reserve = set_aside(delta, overflows)
    if reserve > 0 and not covers(reserve, steps, epsilon):
        raise InputError(
            f"epsilon {epsilon:g} is out of reach: batches that are too large for the float slack of fast engines "
            "would cost more than the part of delta that is set aside for them; lower epsilon, or raise delta"
        )


@lru_cache(maxsize=64)
def _calibrated(plan: Any, epsilon: float) -> Any:
    if plan.search is not None:
        alone = plan.model_copy(update={"search": None})
        return plan.search.within(lambda one_run: _calibrated(alone, one_run), epsilon)
    delta, parts = plan.delta * (1 - 2 * SET_ASIDE), parts_of(plan)
    margin = CONFIRMABLE * (1 + 2.0**-50)
    for part in parts:
        bought = timeline.first_steps(plan, plan.charges, part, steps=False)
        cost = guarantee(bought, delta, plan.adjacency).epsilon
        if not cost < epsilon / margin:
            what = "queries and metrics" if plan.before else "metrics"
            raise InputError(
                f"the {what} alone cost epsilon {rounded_up(cost)} of {epsilon:g}; buy fewer, or with more noise"
            )
    scale, _ = calibrate_noise(
        lambda s: timeline.first_steps(plan.scaled(s), plan.charges, parts[0]),
        epsilon,
        delta,
        plan.adjacency,
        margin=margin,
    )
    return plan.scaled(scale)


def set_aside(delta: float, overflows: bool) -> float:
    """The part of delta that is set aside; 0 where batches have a largest size."""
    return SET_ASIDE * delta if overflows else 0.0


def covers(reserve: float, steps: int, epsilon: float) -> bool:
    """Whether `reserve` covers what `steps` steps add at most to delta: (1 + e^epsilon) steps `OVERFLOW`."""
    return bool(math.log(steps * OVERFLOW) + np.logaddexp(0.0, epsilon) <= math.log(reserve))
