"""Checks that the epsilon of a fixed plan follows from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.verification.checks import private_metrics
from discreet.verification.checks.plan_events import stated
from discreet.verification.checks.pre_queries import queries_of
from discreet.verification.recompute import Decision, decide

_WITH_LOWER = ("none", "poisson", "truncated_poisson", "fixed_size", "individual")
"""Samplers whose steps have a recomputed lower bound that some two neighbours attain."""


def check_epsilon(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check the claim on every part of the data that a change of one unit may touch."""
    claim = facts["claim"]
    if stated(facts["events"]) != private_metrics.all_events(facts["plan"]):  # of a thousand million steps, say
        return False, "not recomputed, as the events are not those of the plan"
    decisions = [
        decide(events, claim["delta"], claim["adjacency"], claim["epsilon"])
        for events in private_metrics.parts(facts["plan"], facts["events"])
    ]
    accepted, reason = together(decisions)
    lower = claim["lower"]
    if lower is None:
        return accepted, reason
    if not 0 <= lower <= max(decision.bounds.upper for decision in decisions):
        return False, f"the stated lower bound {lower} exceeds the recomputed upper bound"
    found = max(decision.bounds.lower for decision in decisions)
    proved = facts["plan"]["sampling"]["kind"] in _WITH_LOWER and lower <= found and _attained(facts["plan"])
    return accepted, reason if proved else f"{reason}; that it is at least {lower:.6g} was not proved here"


def _attained(plan: dict[str, Any]) -> bool:
    """Whether some two neighbours can be the worst for steps, metrics and queries at once, as a lower bound assumes.

    Older certificates may state one where they cannot; their epsilon is right all the same.
    """
    replaced, sizes = plan["adjacency"] == "replace_one", any(one["kind"] == "size" for one in plan.get("metrics", ()))
    if (sizes and plan["adjacency"] != "add_remove") or (replaced and plan.get("holdout") is not None):
        return False
    shown = [one for one in queries_of(plan) if one["event"] == "sparse_histogram"]
    rows = [one["threshold"] + 40 * one["noise_multiplier"] for one in shown]
    return all((2 if replaced else 1) * count <= plan["population"] for count in rows)


def together(decisions: Sequence[Decision]) -> tuple[bool, str]:
    """The decision of all parts of the data together, with its reason."""
    reasons = [decision.reason for decision in decisions]
    if len(reasons) > 1:
        reasons = [f"rows {part}: {reason}" for part, reason in zip(("trained on", "held out"), reasons, strict=True)]
    return all(decision.accepted for decision in decisions), "; ".join(reasons)
