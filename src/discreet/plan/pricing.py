"""What a fixed plan costs, at the part of the data where it costs most, and the noise that a budget needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from discreet.accounting.account import Method, guarantee
from discreet.accounting.calibrate import calibrate_noise
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event, Selection
from discreet.core.guarantee import Guarantee
from discreet.plan import order
from discreet.plan.metrics import Part
from discreet.plan.search import within
from discreet.plan.slack import SET_ASIDE

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

CONFIRMABLE = 1 + 5e-4
"""A plan claims this much more than its bound, so that an accountant with a grid of its own can confirm the claim."""


def parts_of(plan: Plan) -> tuple[tuple[Part, ...], ...]:
    """The parts of the data of which a change of one unit touches one: that of training first, or both together."""
    if plan.holdout is None or plan.adjacency is Adjacency.REPLACE_ONE:
        return (("training", "holdout"),)
    return ("training",), ("holdout",)


def searched(plan: Plan, trial: Event) -> Event:
    """What a plan releases of which one run releases `trial`: the same, or the best of a search over such runs."""
    return trial if plan.search is None else Selection(trial, plan.search.trials)


def runs(plan: Plan) -> int:
    """How many runs a plan is, on average, rounded up."""
    return 1 if plan.search is None else math.ceil(plan.search.trials.mean)


def first_guarantee(
    plan: Plan, count: int, delta: float, method: Method, tolerance: Callable[[float], float]
) -> Guarantee:
    """That of the first `count` charged steps: the largest epsilon of any part, and the largest lower bound.

    Of a search: if each trial stopped after so many steps. Nothing is known of it from below.
    """
    found = [
        _priced(searched(plan, order.first_steps(plan, count, parts)), delta, plan.adjacency, method, tolerance)
        for parts in parts_of(plan)
    ]
    known = [part.lower for part in found if part.lower is not None and plan.search is None]
    worst = max(found, key=lambda part: part.epsilon)
    return replace(worst, lower=max(known) if len(known) == len(found) else None)


_priced = lru_cache(maxsize=64)(guarantee)
"""A run asks for the price of the same steps several times."""


def calibrated(plan: Plan, epsilon: float) -> Plan:
    """The plan with its steps' noise scaled to the smallest that meets (epsilon, plan.delta)."""
    if plan.search is not None:
        alone = plan.model_copy(update={"search": None})
        return within(lambda one_run: calibrated(alone, one_run), plan.search, epsilon)
    delta, parts = plan.delta * (1 - 2 * SET_ASIDE), parts_of(plan)
    target = epsilon / (CONFIRMABLE * (1 + 2.0**-50))
    for part in parts:
        bought = order.first_steps(plan, plan.charges, part, steps=False)
        cost = guarantee(bought, delta, plan.adjacency).epsilon
        if not cost < target:
            what = "queries and metrics" if plan.before else "metrics"
            raise InputError(f"the {what} alone cost epsilon {cost:.4g} of {epsilon:g}; buy fewer, or with more noise")
    scale, _ = calibrate_noise(
        lambda s: order.first_steps(plan.scaled(s), plan.charges, parts[0]), target, delta, plan.adjacency
    )
    return plan.scaled(scale)
