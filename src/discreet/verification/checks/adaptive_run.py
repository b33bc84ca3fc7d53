"""Checks of an adaptive run's certificate, without the code that trains.

The events are the charged ones, in order, and not those of a plan. The plan says which events are allowed, how many,
and which filter every block had to fit.
"""

from __future__ import annotations

import math
from typing import Any

from discreet.verification.checks.plan_events import Runs, after, merged, stated, steps_in
from discreet.verification.checks.pre_queries import answered, queries_of
from discreet.verification.checks.private_metrics import event_of, metrics_of
from discreet.verification.recompute import filters

LOOSENED = 1 + 4e-4
"""The charged events must fit the filter with limits this much larger, and these limits must give the claim. (Runs
claim a little more, so that rounding does not decide.)"""

_UNPROVED = {"poisson": ("replace_one",), "shuffle": ("add_remove",)}

_SET_ASIDE, _OVERFLOW = 1e-9, 1e-100
"""The share of delta that is kept for batches beyond the float slack, and the probability of one in a step."""


def is_adaptive(facts: dict[str, Any]) -> bool:
    """Whether the plan of a certificate leaves its events to a policy."""
    return bool(facts["plan"].get("kind") == "adaptive")


def searches(plan: dict[str, Any]) -> bool:
    """Whether a plan chooses its step sizes privately."""
    policy = plan.get("policy")
    return isinstance(policy, dict) and policy.get("kind") == "line_search"


def method(facts: dict[str, Any]) -> str:
    """The name that the claim's method must have."""
    return f"{facts['plan']['filter']['filter']}-filter"


def charged_runs(record: list[dict[str, Any]]) -> Runs:
    """The events of all reservations, in order."""
    return merged(run for entry in record if entry["kind"] == "reservation" for run in stated(entry["body"]))


def check_events(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check that the events are the charged ones, that the plan allows each, and that there are not too many."""
    plan, runs = facts["plan"], stated(facts["events"])
    metrics = [event_of(metric) for metric in metrics_of(plan)]
    if runs != charged_runs(facts["ledger"]["entries"]):
        return False, "the events are not those that were charged"
    if not answered(plan, runs):
        return False, "the queries that come before the first step are not how the run began"
    metrics += queries_of(plan)
    for event, _ in runs:
        if not (_is_step(plan, event) or _is_count(plan, event) or event in metrics or _is_choice(plan, event)):
            return False, f"the plan does not allow the event {str(event)[:200]}"
    fault = _search_fault(plan, runs) if searches(plan) else None
    if fault is not None:
        return False, fault
    if not steps_in(runs) <= plan["most_steps"]:
        return False, f"{steps_in(runs)} steps were charged, more than the plan's {plan['most_steps']}"
    return True, f"those that were charged, {steps_in(runs)} of at most {plan['most_steps']} steps"


def check_filter(facts: dict[str, Any], opened: dict[str, Any]) -> str | None:
    """The fault of the filter of the run that the ledger opened; None if there is none."""
    plan, filter_ = facts["plan"], facts["plan"]["filter"]
    filters.checked(filter_)
    if opened["body"].get("filter") != filter_:
        return "the run was opened with another filter than the plan's"
    if (filter_["adjacency"], filter_["unit"]) != (plan["adjacency"], plan["unit"]):
        return "the filter is for another adjacency or unit than the plan"
    if plan["adjacency"] in _UNPROVED.get(plan["sampling"]["kind"], ()):
        return f"no theorem is known for {plan['sampling']['kind']} batches under {plan['adjacency']}"
    if filter_["delta"] > plan["delta"]:
        return "the filter has more of delta than the plan"
    if plan["sampling"]["kind"] != "poisson" and plan["every"] != int(plan["every"]):
        return "a phase ends inside an epoch"
    return None


def check_epsilon(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check that the charged events fit the filter, and that the filter gives the claim."""
    plan, claim, stated_epsilon = facts["plan"], facts["claim"], facts["claim"]["epsilon"]
    if isinstance(stated_epsilon, bool) or not 0 <= stated_epsilon < math.inf:
        return False, f"the claim must be finite and at least 0, not {stated_epsilon!r}"
    if claim["lower"] is not None:
        return False, "a run under a filter has no lower bound"
    used = filters.excess(plan["filter"], facts["events"])
    if not used <= LOOSENED:
        return False, f"what was charged is {used:.6g} times what the filter allows"
    reserve = _SET_ASIDE * claim["delta"] if plan["sampling"]["kind"] == "poisson" else 0.0
    proved = filters.epsilon(plan["filter"], LOOSENED, claim["delta"] - reserve)
    if reserve > 0 and not (1 + math.exp(min(proved, 700.0))) * plan["most_steps"] * _OVERFLOW <= reserve:
        return False, "batches beyond the largest are too likely for what is set aside of delta"
    if not proved <= claim["epsilon"]:
        return False, f"claim {claim['epsilon']:.6g} is below what the filter proves, {proved:.6g}"
    return True, f"claim {claim['epsilon']:.6g} is at least what the filter proves, {proved:.6g}; {used:.2%} is spent"


def _is_step(plan: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether the plan allows this event as a step, or as an epoch of disjoint batches."""
    kind = plan["sampling"]["kind"]
    if kind == "none":
        return _is_gaussian(event)
    if kind == "poisson":
        return set(event) == {"event", "rate", "of"} and event["event"] == "poisson" and _is_gaussian(event["of"])
    if kind != "shuffle" or event.get("event") != "epoch":
        return False
    inner, batches = event["of"], math.ceil(plan["population"] / plan["sampling"]["batch"])
    if inner.get("event") != "compose":
        return batches == 1 and _is_gaussian(inner)
    parts = inner["of"]
    return sum(part["count"] for part in parts) == batches and all(_is_gaussian(part["of"]) for part in parts)


def _is_count(plan: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether this is the count that the plan buys."""
    counts = plan["counts"]
    if counts is None:
        return False
    wanted: dict[str, Any] = {"event": "gaussian", "noise_multiplier": counts["noise"], "query": "count"}
    if counts["rate"] is not None:
        wanted = {"event": "poisson", "rate": counts["rate"], "of": wanted}
    return event == wanted


def _is_choice(plan: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether this is the choice of a step size that the plan makes after every gradient."""
    if not searches(plan):
        return False
    return event == {"event": "bounded_range", "epsilon": plan["policy"]["epsilon"], "query": "loss"}


def _search_fault(plan: dict[str, Any], runs: Runs) -> str | None:
    """The fault of a run that chooses its step sizes; None if there is none.

    After the queries before the first step, gradients and choices must alternate.
    """
    if plan["sampling"]["kind"] != "none" or plan["filter"]["filter"] != "zcdp":
        return "step sizes are chosen without sampling and under a zcdp filter only"
    if plan["counts"] is not None or plan["metrics"] or plan["odometer"] is not None:
        return "beside choices of step sizes something else is bought, or read"
    turns = _is_step, _is_choice
    steps = after(runs, len(queries_of(plan)))
    if any(count != 1 or not turns[at % 2](plan, event) for at, (event, count) in enumerate(steps)):
        return "gradients and choices of step sizes do not take turns"
    return None


def _is_gaussian(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and set(event) == {"event", "noise_multiplier", "query"}
        and (event["event"], event["query"]) == ("gaussian", "clipped_sum")
    )
