"""Checks that the epsilon of a fixed plan follows from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.verification.checks import private_metrics
from discreet.verification.recompute import Decision, decide


def check_epsilon(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check the claim on every part of the data that a change of one unit may touch."""
    claim = facts["claim"]
    decisions = [
        decide(events, claim["delta"], claim["adjacency"], claim["epsilon"])
        for events in private_metrics.parts(facts["plan"], facts["events"])
    ]
    lower, upper = claim["lower"], max(decision.bounds.upper for decision in decisions)
    if lower is not None and not 0 <= lower <= upper:
        return False, f"the stated lower bound {lower} exceeds the recomputed upper bound"
    return together(decisions)


def together(decisions: Sequence[Decision]) -> tuple[bool, str]:
    """The decision of all parts of the data together, with its reason."""
    reasons = [decision.reason for decision in decisions]
    if len(reasons) > 1:
        reasons = [f"rows {part}: {reason}" for part, reason in zip(("trained on", "held out"), reasons, strict=True)]
    return all(decision.accepted for decision in decisions), "; ".join(reasons)
