"""Checks of a search for settings in a certificate, without the code that trains.

The charged and claimed event is the whole search, of one of two kinds (`random_stopping`, `disjoint_parts`). It
released one run, the winner's; `one_run` is the certificate as it would be for that run alone, for checks about a
single run.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

from discreet.certificate.canonical import canonical
from discreet.verification.checks import disjoint_parts, private_metrics, random_stopping
from discreet.verification.checks.fixed_plan import together
from discreet.verification.checks.plan_events import Runs, composed, stated, steps_in
from discreet.verification.recompute import Decision, decide


class _Kind(Protocol):
    """The interface of a kind of search, which is a module."""

    METHOD: str
    FIELDS: set[str]

    def fault(self, plan: Mapping[str, Any]) -> str | None: ...
    def event(self, search: Mapping[str, Any], run: dict[str, Any]) -> dict[str, Any]: ...
    def decisions(
        self, plan: dict[str, Any], claim: Mapping[str, Any], runs: list[dict[str, Any]]
    ) -> list[Decision]: ...
    def words(self, search: Mapping[str, Any]) -> dict[str, Any]: ...


_SECTION = {"winner", "epsilon_of_one_run"}

_KINDS: dict[str, _Kind] = {"random_stopping": random_stopping, "parts": disjoint_parts}

_CLIP_NORM = "clip_norm"

_MOST_CANDIDATES, _MOST_BYTES = 10**5, 10**8
"""The most candidates that are looked through, and the most bytes of their settings."""


def is_search(facts: Mapping[str, Any]) -> bool:
    """Whether the claim is about the best of several runs."""
    return facts["plan"].get("search") is not None


def kind(facts: Mapping[str, Any]) -> str:
    """The kind of the search; "" where there is none. `ValueError` if it is not known here."""
    if not is_search(facts):
        return ""
    name = facts["plan"]["search"]["kind"]
    if name not in _KINDS:
        raise ValueError("the search is of a kind that is not known here")
    return str(name)


def method(facts: Mapping[str, Any]) -> str:
    """The theorem that a claim about this search names."""
    return _KINDS[kind(facts)].METHOD


def one_run(facts: dict[str, Any]) -> dict[str, Any]:
    """The certificate as it would be of the winner's run alone; any other certificate as it is."""
    if not is_search(facts):
        return facts
    plan, winner = dict(facts["plan"]), facts["search"]["winner"]
    search = plan.pop("search")
    plan["initial_state"] = search["initial_states"][_candidates(search).index(canonical(winner))]
    if _CLIP_NORM in winner:
        plan["clipping"] = plan["clipping"] | {"norm": winner[_CLIP_NORM]}
    runs = private_metrics.all_events(plan)
    events, steps = composed(runs), steps_in(runs)
    entries = [
        entry | {"body": events, "steps": steps} if entry["kind"] == "reservation" else entry
        for entry in facts["ledger"]["entries"]
    ]
    ledger = facts["ledger"] | {"entries": entries}
    return facts | {"plan": plan, "events": events, "charged_steps": steps, "ledger": ledger}


def check_search(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check the certificate's search: candidates, the winner among them, the price of one run."""
    plan, section = facts["plan"], facts.get("search")
    if not is_search(facts):
        return section is None, "no search" if section is None else "a search is described that the plan does not have"
    search = plan["search"]
    if search["kind"] not in _KINDS or not isinstance(section, dict):
        return False, "the search is of a kind that is not known here, or not described"
    if set(search) != _KINDS[search["kind"]].FIELDS:
        return False, "the search has other fields than a search of its kind"
    if set(section) != _SECTION:
        return False, f"the section on the search needs exactly the fields {sorted(_SECTION)}"
    names = [setting["name"] for setting in search["grid"]]
    candidates = _candidates(search)
    if len(set(names)) < len(names) or len(search["initial_states"]) != len(candidates):
        return False, "the candidates of the search are not told apart, or have other initial states"
    if canonical(section["winner"]) not in candidates:
        return False, "the settings of the winner are not among the candidates"
    if _CLIP_NORM in names and plan["clipping"]["kind"] != "flat":
        return False, "the clip norm of the winner is not that of the plan's way to clip"
    wrong = _KINDS[search["kind"]].fault(plan)
    if wrong is not None:
        return False, wrong
    if plan.get("before"):
        return False, "queries before the first step are not part of a search"
    alone = section["epsilon_of_one_run"]
    if not 0 <= alone <= facts["claim"]["epsilon"]:
        return False, "one run alone is said to cost more than the whole search"
    run = one_run(facts)
    parts = private_metrics.parts(run["plan"], run["events"])
    if not all(decide(part, plan["delta"], plan["adjacency"], alone).accepted for part in parts):
        return False, "one run alone would cost more than is said"
    return True, f"the winner is one of {len(candidates)} candidates, by {search['score'][:80]}"


def check_events(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check that the claim is about one search over runs, as the plan says."""
    plan, runs = facts["plan"], private_metrics.all_events(facts["plan"])
    found = stated(facts["events"])
    if len(found) != 1 or found[0][1] != 1:
        return False, "the events are not one search"
    expected = _KINDS[kind(facts)].event(plan["search"], composed(runs))
    if not _same(found, [(expected, 1)]):
        return False, "the search is not that of the plan, over runs of the plan"
    return True, f"a search over runs of {steps_in(runs)} steps"


def check_charge(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check that the search was charged as a whole, by one reservation, before its only attempt could draw."""
    blocks = [entry for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]
    others = [entry["kind"] for entry in facts["ledger"]["entries"]]
    if len(blocks) != 1 or not _same(stated(blocks[0]["body"]), stated(facts["events"])):
        return False, "what was charged is not the search, whole"
    if (blocks[0]["position"], blocks[0]["steps"]) != (0, 1):
        return False, "the search is charged at another place than the first, or as several events"
    if others != ["run", "attempt", "reservation"] or facts["charged_steps"] != 1:
        return False, "the ledger says more of the search than that it was charged"
    return True, "the search was charged whole, as one event"


def check_epsilon(facts: dict[str, Any]) -> tuple[bool, str]:
    """Check epsilon of the search, for a change of one unit in any part of the data."""
    claim, plan = facts["claim"], facts["plan"]
    if claim["lower"] is not None:
        return False, "nothing is known of a search from below"
    runs = private_metrics.parts(plan, composed(private_metrics.all_events(plan)))
    return together(_KINDS[kind(facts)].decisions(plan, claim, runs))


def described(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The search as pages describe it; None if there was none."""
    if not is_search(facts):
        return None
    search, section = facts["plan"]["search"], facts["search"]
    alone = section["epsilon_of_one_run"]
    return _KINDS[kind(facts)].words(search) | {
        "kind": kind(facts),
        "candidates": len(_candidates(search)),
        "grid": [{"name": s["name"], "values": [_shown(v) for v in s["values"]]} for s in search["grid"]],
        "winner": ", ".join(f"{name} = {_shown(value)}" for name, value in section["winner"].items()),
        "alone": alone,
        "cost": facts["claim"]["epsilon"] - alone,
    }


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _candidates(search: Mapping[str, Any]) -> list[bytes]:
    """All combinations of the grid, in order, as canonical JSON: 1 and 1.0 and true differ there."""
    names = [setting["name"] for setting in search["grid"]]
    count = math.prod(len(setting["values"]) for setting in search["grid"])
    longest = sum(max((len(canonical(value)) for value in one["values"]), default=0) for one in search["grid"])
    if count > _MOST_CANDIDATES or count * longest > _MOST_BYTES:
        raise ValueError("more candidates than can be looked through")
    values = (setting["values"] for setting in search["grid"])
    return [canonical(dict(zip(names, each, strict=True))) for each in itertools.product(*values)]


def _same(one: Runs, other: Runs) -> bool:
    return [(canonical(event), n) for event, n in one] == [(canonical(event), n) for event, n in other]
