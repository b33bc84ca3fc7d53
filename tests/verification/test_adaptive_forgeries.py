"""Certificates of runs that were chosen on the way: what they say, and forgeries with the check that must find each."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from forging import (
    Facts,
    assert_found,
    claim,
    edit,
    edit_consistently,
    entry,
    facts_of,
    fingerprinted,
    put,
    resealed,
    times,
    without_entry,
)
from problems import blobs, certified_run

from discreet import publish, verify
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson, Repeat
from discreet.plan import AdaptivePlan, Controls, Counts, History, PoissonSampling
from discreet.publication.pages.report import report_page


def falling(phase: int, history: History) -> Controls | None:
    """Less noise and smaller batches in every phase."""
    return Controls(3.0 - 0.5 * phase, 12.0 - 2 * phase)


def plan(**changes: Any) -> AdaptivePlan:
    """So tight a budget that the filter ends the run after about twenty steps."""
    given: dict[str, Any] = {
        "epsilon": 4.0,
        "delta": 1e-5,
        "population": 24,
        "clip_norm": 1.0,
        "policy": falling,
        "noise_multiplier": 3.0,
        "most_steps": 60,
        "course": Repeat(Poisson(0.5, Gaussian(2.5)), 16),
        "counts": Counts(noise=30.0),
        "every": 3.0,
        "block": 3,
    }
    return AdaptivePlan.make(PoissonSampling(rate=0.5), **(given | changes))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adaptive")
    publish(certified_run(folder, plan=plan(), public_validation=blobs(9, seed=2)), folder / "out")
    return folder / "out"


def test_the_claim_is_the_filters_and_the_events_are_what_was_charged(original: Path) -> None:
    facts, verified = facts_of(original), verify(original)
    assert verified.accepted, verified.checks
    assert facts["claim"]["method"] == "rdp-curve-filter"
    assert facts["claim"]["lower"] is None
    assert 3.98 < facts["claim"]["epsilon"] <= 4.0
    assert 6 <= facts["charged_steps"] < 60  # the filter ended it
    multipliers = {part["of"].get("rate"): part["of"] for part in facts["events"]["of"]}
    assert len(multipliers) >= 3  # rates of two phases at least, and the counts, which have none
    assert any(part["of"].get("query") == "count" for part in facts["events"]["of"])
    detail = next(check.detail for check in verified.checks if check.name == "epsilon")
    spent = float(detail.rsplit("; ", 1)[1].split("%")[0])
    assert 70 < spent <= 100


def test_the_pages_say_that_it_holds_whatever_was_chosen(original: Path) -> None:
    report, card = (original / "report.html").read_text(), (original / "README.md").read_text()
    assert "whatever was chosen on\nthe way" in report
    assert "hold whatever was chosen on the way" in card
    assert "Part of the budget spent" in report
    assert "Expected batch" in report
    assert "noisy counts of correct predictions" in report
    assert "All 60 steps" not in report
    with pytest.raises(InputError, match="another plan"):
        report_page(facts_of(original), plan(most_steps=61).with_initial_state("sha256:0"))


def lowered(facts: Facts) -> None:
    """The whole story with a lower epsilon, told consistently."""
    facts["claim"]["epsilon"] *= 0.99
    facts["ledger"]["entries"][0]["body"]["epsilon"] *= 0.99


def other_filter(change: Any) -> Any:
    """The same filter everywhere: in the plan, and in the run that the ledger opened."""

    def forge(facts: Facts) -> None:
        change(facts["plan"]["filter"])
        facts["ledger"]["entries"][0]["body"]["filter"] = copy.deepcopy(facts["plan"]["filter"])

    return forge


def scaled(factor: float) -> Any:
    def change(budget: Facts) -> None:
        budget["limits"] = [limit * factor for limit in budget["limits"]]

    return change


def one_order(budget: Facts) -> None:
    """A filter at one order in place of the curve: of its kind, but the run was not put to it."""
    order, limit = budget["orders"][0], budget["limits"][0] / 2
    kept = {name: budget[name] for name in ("delta", "adjacency", "unit")}
    budget.clear()
    budget.update({"filter": "rdp-order", "order": order, "limit": limit, "conversion": "improved"} | kept)


def event_gone_everywhere(facts: Facts) -> None:
    """A step left out of the events and of its block, whose length says so."""
    facts["events"]["of"][0]["count"] -= 1
    block = next(one for one in facts["ledger"]["entries"] if one["kind"] == "reservation")
    block["body"]["of"][0]["count"] -= 1
    block["steps"] -= 1


def less_noise(facts: Facts) -> None:
    """All steps with two thirds of the noise, in the events and in every block."""
    events = [part["of"] for part in facts["events"]["of"]]
    for one in facts["ledger"]["entries"]:
        if one["kind"] == "reservation":
            events += [part["of"] for part in one["body"]["of"]]
    for event in events:
        event.get("of", event)["noise_multiplier"] *= 0.66


def another_query(facts: Facts) -> None:
    for part in facts["events"]["of"]:
        part["of"].get("of", part["of"])["query"] = "count"
    for one in facts["ledger"]["entries"]:
        if one["kind"] == "reservation":
            for part in one["body"]["of"]:
                part["of"].get("of", part["of"])["query"] = "count"


def looser(facts: Facts) -> None:
    """Larger limits alone: what the claim's epsilon would have to pay for."""
    other_filter(scaled(1.05))(facts)


FORGERIES: dict[str, tuple[str, Any]] = {
    "epsilon lowered": ("epsilon", edit(lowered, resealed)),
    "epsilon lowered in the claim only": ("ledger", edit(claim("epsilon", times(0.99)))),
    "epsilon NaN": ("epsilon", edit(claim("epsilon", math.nan))),
    "epsilon infinite": ("epsilon", edit(claim("epsilon", math.inf))),
    "epsilon true": ("epsilon", edit(claim("epsilon", True))),
    "a lower bound": ("epsilon", edit(claim("lower", 0.1))),
    "event removed": ("events", edit(lambda facts: facts["events"]["of"].pop())),
    "event count lowered": ("events", edit(put("events", "of", 0, "count", value=1))),
    "a step removed everywhere": ("ledger", edit(event_gone_everywhere, resealed)),
    "block removed": ("ledger", edit(without_entry("reservation", 1), resealed)),
    "block removed, events too": ("events", edit(without_entry("reservation", 0), resealed)),
    "less noise in the events": ("events", edit(put("events", "of", 0, "of", "of", "noise_multiplier", value=1.0))),
    "less noise everywhere": ("epsilon", edit(less_noise, resealed)),
    "steps as counts": ("events", edit(another_query, resealed)),
    "smaller limits everywhere": ("epsilon", edit_consistently(other_filter(scaled(0.5)), fingerprinted)),
    "larger limits everywhere": ("epsilon", edit_consistently(looser, fingerprinted)),
    "another filter everywhere": (
        "claim",
        edit_consistently(other_filter(one_order), fingerprinted),
    ),
    "another filter and its method": (
        "epsilon",
        edit_consistently(other_filter(one_order), fingerprinted, claim("method", "rdp-order-filter")),
    ),
    "limits of the plan only": ("ledger", edit_consistently(put("plan", "filter", "limits", 0, value=times(2)))),
    "limits of the ledger only": (
        "ledger",
        edit(put("ledger", "entries", 0, "body", "filter", "limits", 0, value=times(2)), resealed),
    ),
    "no filter in the ledger": ("ledger", edit(lambda f: f["ledger"]["entries"][0]["body"].pop("filter"), resealed)),
    "a filter for another adjacency": (
        "ledger",
        edit_consistently(other_filter(lambda budget: budget.update(adjacency="zero_out")), fingerprinted),
    ),
    "limits of NaN": ("epsilon", edit_consistently(other_filter(scaled(math.nan)), fingerprinted)),
    "fewer steps allowed than charged": (
        "events",
        edit_consistently(put("plan", "most_steps", value=5), fingerprinted),
    ),
    "the method of a fixed plan": ("claim", edit(claim("method", "pld"))),
    "a fixed plan": ("claim", edit_consistently(lambda facts: facts["plan"].pop("kind"), fingerprinted)),
    "counts that the plan does not buy": (
        "events",
        edit_consistently(put("plan", "counts", value=None), fingerprinted),
    ),
    "charged steps": ("ledger", edit(put("charged_steps", value=3))),
    "delta": ("plan", edit(claim("delta", 1e-6))),
    "run of another plan": ("ledger", edit(entry("run", "body", {"plan": "sha256:00"}), resealed)),
    "adaptive assumption left out": ("mechanism", edit(lambda facts: facts["assumptions"].pop(4))),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(folder: Path, name: str) -> None:
    finder, forge = FORGERIES[name]
    forge(folder)
    assert_found(finder, folder)
