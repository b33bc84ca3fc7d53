"""Certificates of searches, and forgeries with the check that must find each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from forging import (
    Change,
    Facts,
    again,
    assert_found,
    candidate,
    claim,
    entry,
    facts_of,
    forged,
    put,
    releases,
    times,
    without_entry,
)
from searches import tuning

from discreet import publish, verify
from discreet.verification.checks import tuning as tuning_checks

DEARER = {"law": "truncated_negative_binomial", "shape": 1.0, "success": 0.01}

pytestmark = pytest.mark.usefixtures("recomputed_once")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("search")
    publish(tuning(folder).run(), folder / "out")
    return folder / "out"


def test_the_original_is_accepted(original: Path) -> None:
    assert verify(original).accepted


def law(**fields: Any) -> Change:
    """Another law of the number of runs, in plan, events and ledger alike."""

    def change(facts: Facts) -> None:
        stated = facts["events"]["of"][0]["of"], facts["ledger"]["entries"][2]["body"]["of"][0]["of"]
        for trials in (facts["plan"]["search"]["trials"], *(event["trials"] for event in stated)):
            trials.update(fields)

    return change


def as_one_run(facts: Facts) -> None:
    """The search told as a single run at the price of one; the ledger still has what was charged."""
    facts["claim"] |= {"epsilon": facts["search"]["epsilon_of_one_run"], "method": "pld"}
    facts["events"] = facts["events"]["of"][0]["of"]["of"]
    states, facts["plan"]["search"] = facts["plan"]["search"]["initial_states"], None
    facts["plan"]["initial_state"], facts["search"] = states[0], None


def other_clip(facts: Facts) -> None:
    norms = [norm for norm in (0.5, 1.0, 2.0) if norm != facts["search"]["winner"]["clip_norm"]]
    facts["search"]["winner"]["clip_norm"] = norms[0]


def fewer_steps(facts: Facts) -> None:
    """Runs of fewer steps than the plan has."""
    facts["events"]["of"][0]["of"]["of"]["of"][0]["count"] -= 1


def adaptive(facts: Facts) -> None:
    """A search whose price is that of one run, by the filter of a plan that is chosen on the way."""
    query = {"event": "gaussian", "noise_multiplier": 3.0, "query": "clipped_sum"}
    budget = {"filter": "zcdp", "adjacency": "add_remove", "unit": "example", "rho": 0.06, "delta": 1e-5}
    facts["plan"] |= {"kind": "adaptive", "sampling": {"kind": "none"}, "filter": budget, "most_steps": 1}
    facts["plan"] |= {"counts": None, "policy": {"kind": "none"}, "metrics": [], "holdout": None}
    facts["events"] = {"event": "compose", "of": [{"event": "repeat", "count": 1, "of": query}]}
    facts["claim"] |= {"method": "zcdp-filter", "epsilon": 1.6}


FORGERIES: list[tuple[str, str, list[Change]]] = [
    ("epsilon", "a lower epsilon", [claim("epsilon", times(0.97))]),
    ("epsilon", "the epsilon of one run", [lambda f: f["claim"].update(epsilon=f["search"]["epsilon_of_one_run"])]),
    ("epsilon", "many more runs at the same price", [law(**DEARER)]),
    ("epsilon", "another shape at the same price", [law(shape=4.0)]),
    ("epsilon", "a lower bound", [claim("lower", 0.1)]),
    ("events", "eta changed in the plan", [put("plan", "search", "trials", "shape", value=0.0)]),
    ("events", "mean changed in the plan", [put("plan", "search", "trials", "success", value=0.9)]),
    ("events", "fewer steps in a run", [fewer_steps]),
    ("ledger", "a single run, by its price", [as_one_run]),
    ("ledger", "charged twice", [again("reservation")]),
    ("ledger", "charged as so many steps", [entry("reservation", "steps", 9)]),
    ("ledger", "charged at another place", [entry("reservation", "position", 9)]),
    ("ledger", "a note for every run", [releases]),
    ("ledger", "never charged", [without_entry("reservation")]),
    ("ledger", "charged as another event", [entry("reservation", "body", {"event": "compose", "of": []})]),
    ("search", "a winner that was no candidate", [put("search", "winner", "optimizer.lr", value=0.3)]),
    ("search", "true for 1.0", [put("search", "winner", "optimizer.lr", value=True)]),
    ("search", "one run told cheaper", [put("search", "epsilon_of_one_run", value=times(0.9))]),
    ("search", "more said of the search", [put("search", "runs", value=4)]),
    ("search", "a candidate more", [candidate(7.0)]),
    ("search", "a score that was not paid for", [put("plan", "search", "score", value="holdout_accuracy")]),
    ("search", "another kind of search", [put("plan", "search", "kind", value="exponential")]),
    ("clipping", "another clip norm of the winner", [other_clip]),
    ("public tensors", "other initial states", [put("plan", "search", "initial_states", value=["sha256:00"] * 6)]),
    ("claim", "priced as a run that is chosen on the way", [adaptive]),
    ("search", "a score with a private name", [put("plan", "search", "score", value="Training_accuracy")]),
    ("search", "one run told dearer than the search", [put("search", "epsilon_of_one_run", value=1e9)]),
    ("claim", "a method that is for single runs", [claim("method", "pld")]),
    ("mechanism", "an assumption left out", [lambda f: f["assumptions"].pop(-3)]),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=[name for _, name, _ in FORGERIES])
def test_forgeries_are_found(folder: Path, forgery: tuple[str, str, list[Change]]) -> None:
    check, _, changes = forgery
    forged(folder, *changes)
    assert_found(check, folder)


def test_a_consistent_cheaper_law_is_another_honest_claim(folder: Path) -> None:
    """The verifier proves that the claim follows from the stated events, and no more: this story is consistent."""
    forged(folder, law(success=0.9))
    assert verify(folder, pages=False).accepted  # a forger would write them again


def test_few_candidates_with_long_settings_do_not_fill_the_memory(original: Path) -> None:
    facts = facts_of(original)
    facts["plan"]["search"]["grid"].append({"name": "momentum", "values": ["0" * 10_000, *range(2_000)]})
    with pytest.raises(ValueError, match="more candidates than can be looked through"):
        tuning_checks.check_search(facts)
