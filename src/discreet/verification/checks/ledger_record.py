"""Checks of the ledger's entries in a certificate: one run, its attempts, and the blocks of steps that they charged."""

from __future__ import annotations

from typing import Any

from discreet.certificate.canonical import canonical, digest
from discreet.verification.checks import adaptive_run, pre_queries, tuning
from discreet.verification.checks.plan_events import Runs, begins_with, merged, stated, steps_in

Entry = dict[str, Any]


def check(facts: dict[str, Any]) -> tuple[bool, str]:
    """The blocks that were charged follow each other, and are the first steps of the plan."""
    record = facts["ledger"]["entries"]
    if facts["ledger"]["digest"] != digest(canonical(record)):
        return False, "the digest is not that of the entries"
    fault = _run_fault(facts, record)
    if fault is not None:
        return False, fault
    if tuning.is_search(facts):
        return tuning.check_charge(facts)
    charged: Runs = []
    position = 0
    for entry in record:
        if entry["kind"] == "reservation":
            block = stated(entry["body"])
            if entry["position"] != position or entry["steps"] != steps_in(block):
                return False, f"the block at step {entry['position']} does not follow the {position} steps before it"
            position += entry["steps"]
            charged += block
    events = stated(facts["events"])
    if not begins_with(events, merged(charged)) or facts["charged_steps"] != position:
        return False, "what was charged is not the beginning of the plan"
    if position == 0:
        return False, "no step was charged, so there is nothing to certify"
    if adaptive_run.is_adaptive(facts):
        return True, f"{position} steps charged, block by block under the filter of the run"
    return True, f"{position} of {steps_in(events)} steps charged, in the order of the plan; the claim covers all"


def _run_fault(facts: dict[str, Any], record: list[Entry]) -> str | None:
    """The fault of the run in the record, and of its attempts; None if there is none."""
    opened = [entry for entry in record if entry["kind"] == "run"]
    if len(opened) != 1 or record[0] != opened[0] or opened[0]["body"]["plan"] != facts["plan_fingerprint"]:
        return "the ledger does not begin with one run of this plan"
    if len({entry["run"] for entry in record}) != 1:
        return "the ledger has entries of several runs"
    if any(entry["steps"] != 0 for entry in record if entry["kind"] != "reservation"):
        return "an entry of the ledger that charges nothing says that it has steps"
    if any(opened[0]["body"][name] != facts["claim"][name] for name in ("epsilon", "delta", "adjacency", "unit")):
        return "the ledger charged the run with another guarantee than the claim"
    if adaptive_run.is_adaptive(facts):
        fault = adaptive_run.check_filter(facts, opened[0])
        if fault is not None:
            return fault
    return _order_fault(facts, record) or pre_queries.attempts_fault(facts, record)


def _order_fault(facts: dict[str, Any], record: list[Entry]) -> str | None:
    """The fault in the order of attempts, charges and releases; None if a run can have written them so.

    Attempts are numbered from 0. An earlier one may still note a release, and note it twice, when a later one goes on.
    """
    attempt, position = -1, 0
    for entry in record[1:]:
        kind, number, place = entry["kind"], entry["attempt"], entry["position"]
        if kind == "attempt":
            attempt += 1
        if type(number) is not int or number < 0 or (number != attempt if kind == "attempt" else number > attempt):
            return f"a {kind} is of attempt {number!r}, where the last that began is attempt {attempt}"
        position += entry["steps"]
        if kind == "release" and not 0 <= place <= position:
            return f"a release is noted after step {place!r} of {position} that were charged"
    if any((entry["attempt"], entry["position"]) != (0, 0) for entry in record[:1]):
        return "the run begins at another place than the first"
    if not facts["ledger"]["head"]["number"] >= len(record) - 1:
        return "the head of the ledger is before its last entry"
    return None
