"""Certificates of searches over parts of the data, and forgeries with the check that must find each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from forging import Change, Facts, again, assert_found, candidate, claim, forged, put, releases, times, without_entry
from searches import parts_tuning

from discreet import publish, verify
from discreet.core.assumptions import CHOICE

LAW = {"law": "truncated_negative_binomial", "shape": 1.0, "success": 0.25}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("parts")
    publish(parts_tuning(folder, engine="bookkeeping").run(), folder / "out")
    return folder / "out"


def bodies(facts: Facts) -> list[Any]:
    """The searches that are stated: in the events, and in the reservation of the ledger."""
    return [facts["events"]["of"][0], facts["ledger"]["entries"][2]["body"]["of"][0]]


def everywhere(change: Any) -> Change:
    """The same change to what is claimed and to what was charged."""

    def made(facts: Facts) -> None:
        for body in bodies(facts):
            change(body["of"])

    return made


def ranged(factor: float) -> Change:
    """Another range of the choice, in plan, events and ledger alike."""

    def made(facts: Facts) -> None:
        facts["plan"]["search"]["epsilon"] *= factor
        for body in bodies(facts):
            body["of"]["of"][1]["epsilon"] = facts["plan"]["search"]["epsilon"]

    return made


def as_stopping(facts: Facts) -> None:
    """The price of one run for the best of secretly many: the kind swapped, and all of it told alike."""
    search = facts["plan"]["search"]
    states, grid = search["initial_states"], search["grid"]
    score = "validation_accuracy"
    facts["plan"]["search"] = {
        "kind": "random_stopping", "trials": LAW, "score": score, "grid": grid, "initial_states": states
    }  # fmt: skip
    facts["claim"]["method"] = "pld-profile"
    for body in bodies(facts):
        body["of"] = {"event": "selection", "of": body["of"]["of"][0], "trials": LAW}


def kind_only(facts: Facts) -> None:
    facts["plan"]["search"]["kind"] = "random_stopping"


def dearer_runs(facts: Facts) -> None:
    """Runs with less noise than the claim has, in plan, events and ledger alike."""
    facts["plan"]["noise"][0]["multiplier"] = noise = 0.9 * facts["plan"]["noise"][0]["multiplier"]
    for body in bodies(facts):
        body["of"]["of"][0]["of"][0]["of"]["of"]["noise_multiplier"] = noise


def noisy_max(search: Any) -> None:
    search["of"][1]["event"] = "noisy_max"


def bought(facts: Facts) -> None:
    """A metric on private rows beside the choice."""
    metric = {"kind": "accuracy", "noise": 9.0, "every": None, "bound": None, "rows": "training", "rate": None}
    facts["plan"]["metrics"] = [metric]
    event = {"event": "gaussian", "noise_multiplier": 9.0, "query": "centred_bit"}
    for body in bodies(facts):
        body["of"]["of"][0]["of"].append({"event": "repeat", "count": 1, "of": event})


def one_choice(facts: Facts) -> None:
    """A single candidate, so that nothing was chosen, but a choice is told."""
    search = facts["plan"]["search"]
    search["grid"] = [{"name": s["name"], "values": [facts["search"]["winner"][s["name"]]]} for s in search["grid"]]
    search["initial_states"] = search["initial_states"][:1]


def replaced(facts: Facts) -> None:
    facts["plan"]["adjacency"] = facts["claim"]["adjacency"] = "replace_one"
    facts["ledger"]["entries"][0]["body"]["adjacency"] = "replace_one"


def search(name: str, value: Any) -> Change:
    return put("plan", "search", name, value=value)


FORGERIES: list[tuple[str, str, list[Change]]] = [
    ("epsilon", "a lower epsilon", [claim("epsilon", times(0.97))]),
    ("epsilon", "a sharper choice at the same price", [ranged(1.01)]),
    ("epsilon", "dearer runs at the same price", [dearer_runs]),
    ("epsilon", "a lower bound", [claim("lower", 0.1)]),
    ("epsilon", "the best of secretly many, for one run", [as_stopping]),
    ("events", "the range lowered in the plan", [search("epsilon", times(0.5))]),
    ("events", "fewer steps in a run", [everywhere(lambda s: s["of"][0]["of"][0].update(count=6))]),
    ("events", "no choice", [everywhere(lambda s: s["of"].pop())]),
    ("events", "another mechanism of the choice", [everywhere(noisy_max)]),
    ("events", "fewer steps in the claim", [lambda f: bodies(f)[0]["of"]["of"][0]["of"][0].update(count=6)]),
    ("search", "the kind swapped", [kind_only]),
    ("search", "a candidate more", [candidate(7.0)]),
    ("search", "a candidate less", [put("plan", "search", "grid", 0, "values", value=lambda old: old[:1])]),
    ("search", "a single candidate", [one_choice]),
    ("search", "another score", [search("score", "validation_accuracy")]),
    ("search", "a loss without a bound", [search("score", "loss")]),
    ("search", "more said of the search", [search("runs", 4)]),
    ("search", "no salt", [search("salt", None)]),
    ("search", "a winner that was no candidate", [put("search", "winner", "optimizer.lr", value=0.3)]),
    ("search", "one run told cheaper", [put("search", "epsilon_of_one_run", value=times(0.9))]),
    ("search", "a metric beside the choice", [bought]),
    ("search", "a replaced unit", [replaced]),
    ("ledger", "charged twice", [again("reservation")]),
    ("ledger", "a note for every run", [releases]),
    ("ledger", "never charged", [without_entry("reservation")]),
    ("claim", "a method that is for single runs", [claim("method", "pld")]),
    ("mechanism", "the choice's assumption left out", [lambda f: f["assumptions"].remove(CHOICE)]),
    ("public tensors", "other initial states", [search("initial_states", ["sha256:00"] * 4)]),
]


def test_the_original_is_accepted(original: Path) -> None:
    assert verify(original).accepted


@pytest.mark.parametrize("forgery", FORGERIES, ids=[name for _, name, _ in FORGERIES])
def test_forgeries_are_found(folder: Path, forgery: tuple[str, str, list[Change]]) -> None:
    check, _, changes = forgery
    forged(folder, *changes)
    assert_found(check, folder)


def test_a_consistent_blunter_choice_is_another_honest_claim(folder: Path) -> None:
    """The verifier proves that the claim follows from the stated events, and no more: this story is consistent."""
    forged(folder, ranged(0.5))
    assert verify(folder, pages=False).accepted  # a forger would write them again
