"""Checks of the best of a secret number of runs, without the code that trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.trials import most, trials_from_json
from discreet.verification.checks import private_metrics
from discreet.verification.recompute import Decision
from discreet.verification.recompute.random_stopping import decide_search

METHOD = "pld-profile"
"""The theorem of the claim."""

FIELDS = {"kind", "trials", "score", "grid", "initial_states"}

PUBLIC = "validation_"
"""Prefix of scores that are computed on public data only."""

_SELDOM = 0.01


def fault(plan: Mapping[str, Any]) -> str | None:
    """The fault of a plan's search; None if there is none."""
    score, known = (
        plan["search"]["score"],
        {private_metrics.name_of(metric) for metric in private_metrics.metrics_of(dict(plan))},
    )
    if not score.startswith(PUBLIC) and score not in known:
        return f"the score {score[:80]!r} is on private rows and was not paid for"
    return None


def event(search: Mapping[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The event of a search whose single run releases `run`."""
    return {"event": "selection", "of": run, "trials": search["trials"]}


def decisions(plan: dict[str, Any], claim: Mapping[str, Any], runs: list[dict[str, Any]]) -> list[Decision]:
    """Decisions on the epsilon of the best of K runs, for a change of one unit in either part of the data."""
    trials = plan["search"]["trials"]
    return [decide_search(run, trials, claim["delta"], claim["adjacency"], claim["epsilon"]) for run in runs]


def words(search: Mapping[str, Any]) -> dict[str, Any]:
    """The search as pages describe it."""
    law = trials_from_json(search["trials"])
    return {
        "mean": law.mean,
        "most": most(law, _SELDOM),
        "score": search["score"].replace("_", " "),
        "public": search["score"].startswith(PUBLIC),
    }
