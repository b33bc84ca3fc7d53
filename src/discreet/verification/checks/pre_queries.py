"""Checks of the queries that a run answered before its first step, without the code that trains.

They are events of the plan (`before`), one charge each. They come first in the events and in the ledger, and in their
own attempt.
"""

from __future__ import annotations

from typing import Any

from discreet.core.errors import InputError
from discreet.verification.checks.plan_events import Runs, begins_with, merged

_ALONE = {"gaussian", "laplace", "bounded_range", "noisy_max", "sparse_histogram", "selection", "poisson"}
"""Events that are a single charge; the others stand for many steps."""


def queries_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The events before the first step of a plan, in order; `InputError` for impossible ones."""
    found: list[dict[str, Any]] = plan.get("before", [])
    if not isinstance(found, list) or any(event["event"] not in _ALONE for event in found):
        raise InputError(f"what comes before the first step is a list of events, each one of {sorted(_ALONE)}")
    if found and plan["unit"] != "example":
        raise InputError("queries before the first step protect single rows only")
    return found


def answered(plan: dict[str, Any], runs: Runs) -> bool:
    """Whether a run began with the queries of its plan."""
    return begins_with(runs, merged((event, 1) for event in queries_of(plan)))


def attempts_fault(facts: dict[str, Any], record: list[dict[str, Any]]) -> str | None:
    """The fault of a run's attempts; None if there is none. The first attempt answers the queries, if there are any."""
    names = ("engine", "float_bits", "noise", "randomness", "lanes", "sites")
    mechanism = {name: facts["mechanism"][name] for name in names if name in facts["mechanism"]}
    bodies = [entry["body"] for entry in record if entry["kind"] == "attempt"]
    if queries_of(facts["plan"]):
        asked = {"engine": "queries", "noise": mechanism["noise"], "randomness": mechanism["randomness"]}
        if bodies[:1] != [asked]:
            return "the run was not started by answering the queries that come before its first step"
        bodies = bodies[1:]
    if not bodies or any(body != mechanism for body in bodies):
        return "the run was started with another engine, noise, randomness, lanes or sites than the certificate says"
    return None
