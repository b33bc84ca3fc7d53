"""Checks of a choice among candidates that were each trained on their own part of the data, without the code that
trains.

A unit's identifier decides its part: one candidate trains on it, or the choice looks at it. So a claim must cover one
run and one choice, and no more (`recompute.bounded_range`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from discreet.verification.checks import private_metrics
from discreet.verification.recompute import Decision, decide
from discreet.verification.recompute.bounded_range import decide_choice

METHOD = "disjoint-parts"
"""The theorem of the claim."""

FIELDS = {"kind", "grid", "score", "bound", "epsilon", "salt", "initial_states"}

_SCORES = ("accuracy", "loss")


def fault(plan: Mapping[str, Any]) -> str | None:
    """The fault of a plan's search; None if there is none."""
    search = plan["search"]
    if plan["adjacency"] not in ("add_remove", "zero_out"):
        return f"under {str(plan['adjacency'])[:20]} a unit may change parts, and nothing is proved"
    if plan["sampling"]["kind"] in private_metrics.SIZE_IS_PUBLIC:
        return "the sampler needs the number of rows to train on, which parts make random"
    if plan.get("metrics") or plan.get("holdout") is not None or plan.get("odometer") is not None:
        return "beside the choice something else is bought, or read, of the data"
    if search["score"] not in _SCORES or (search["score"] == "loss") != (search["bound"] is not None):
        return f"the score {str(search['score'])[:80]!r} is not known here, or has no bound"
    if search["bound"] is not None and not (type(search["bound"]) is float and 0 < search["bound"] < math.inf):
        return "the losses have no finite bound"
    if not isinstance(search["salt"], str):
        return "it is not said by which hash the data was cut"
    if len(search["initial_states"]) < 2:
        return "there is nothing to choose from"
    return None


def event(search: Mapping[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The event of a search whose single run releases `run`: run and choice together, although no unit takes part in
    both."""
    chosen = {"event": "bounded_range", "epsilon": search["epsilon"], "query": "clipped_sum"}
    return {"event": "compose", "of": [run, chosen]}


def decisions(plan: dict[str, Any], claim: Mapping[str, Any], runs: list[dict[str, Any]]) -> list[Decision]:
    """Decisions on the epsilon of one run, and on that of the choice; the claim must cover both."""
    (run,) = runs
    return [
        decide(run, claim["delta"], claim["adjacency"], claim["epsilon"]),
        decide_choice(plan["search"]["epsilon"], claim["delta"], claim["epsilon"]),
    ]


def words(search: Mapping[str, Any]) -> dict[str, Any]:
    """The search as pages describe it."""
    scores = {"accuracy": "the number of right predictions", "loss": "the sum of clipped losses"}
    return {
        "parts": math.prod(len(setting["values"]) for setting in search["grid"]) + 1,
        "range": search["epsilon"],
        "score": scores[search["score"]],
    }
