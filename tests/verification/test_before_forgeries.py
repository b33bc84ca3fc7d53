"""Certificates of runs that answered queries first: the total holds them, and forgeries with the check for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adaptive_runs import adaptive
from first_runs import COMPONENTS, first_plan, first_run
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
    without_entry,
)
from problems import tiny_plan

from discreet import publish, verify
from discreet.plan import Metric

pytestmark = pytest.mark.usefixtures("recomputed_once")

PLAIN = tiny_plan().guarantee().epsilon


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    publish(first_run(folder, first_plan()), folder / "out")
    return folder / "out"


def test_the_claim_covers_the_components(original: Path) -> None:
    facts, verified = facts_of(original), verify(original)
    assert verified.accepted, verified.checks
    assert facts["claim"]["epsilon"] == first_plan().guarantee().epsilon > PLAIN
    assert facts["claim"]["lower"] is not None
    first = {"event": "gaussian", "noise_multiplier": 4.0, "query": "covariance"}
    assert facts["plan"]["before"] == [first]
    assert facts["events"]["of"][0] == {"event": "repeat", "count": 1, "of": first}
    report, card = (original / "report.html").read_text(), (original / "README.md").read_text()
    assert "before the first step: covariance matrix, with noise" in report
    assert "answered 1 query on the same data" in report
    assert "metrics on private rows that it buys" not in report
    assert "| queries on the same data before the first step, covered by epsilon | 1 |" in card


def cheaper(facts: Facts) -> None:
    """The claim of the training alone."""
    facts["claim"]["epsilon"] = facts["ledger"]["entries"][0]["body"]["epsilon"] = PLAIN
    facts["claim"]["lower"] = None


def out_of_the_plan(facts: Facts) -> None:
    facts["plan"]["before"] = []


def out_of_the_events(facts: Facts) -> None:
    facts["events"]["of"].pop(0)


def out_of_the_ledger(facts: Facts) -> None:
    """The reservation of the components, with all places moved forward."""
    record = facts["ledger"]["entries"]
    record.remove(next(one for one in record if one["kind"] == "reservation"))
    for one in record:
        one["position"] -= one["kind"] == "reservation"
    facts["charged_steps"] -= 1


def after_the_steps(facts: Facts) -> None:
    facts["events"]["of"].append(facts["events"]["of"].pop(0))


def another(facts: Facts) -> None:
    """A query that the run never answered."""
    facts["plan"]["before"].append({"event": "gaussian", "noise_multiplier": 9.0, "query": "count"})


def quieter(facts: Facts) -> None:
    """More noise than was drawn, in the plan and the events; the ledger knows better."""
    facts["plan"]["before"][0]["noise_multiplier"] = 40.0
    facts["events"]["of"][0]["of"]["noise_multiplier"] = 40.0


def many_steps(facts: Facts) -> None:
    event = {"event": "compose", "of": [{"event": "repeat", "count": 2, "of": facts["plan"]["before"][0]}]}
    facts["plan"]["before"] = [event]


def without_assumption(facts: Facts) -> None:
    facts["assumptions"] = [one for one in facts["assumptions"] if "plan.before" not in one]


FORGERIES: dict[str, tuple[str, Any]] = {
    "the claim of the training alone": ("epsilon", edit(cheaper, resealed)),
    "the claim alone lowered": ("ledger", edit(claim("epsilon", PLAIN))),
    "left out of the plan": ("events", edit_consistently(out_of_the_plan, fingerprinted)),
    "left out of the events": ("events", edit(cheaper, out_of_the_events, resealed)),
    "left out of plan and events": (
        "ledger",
        edit_consistently(cheaper, out_of_the_plan, out_of_the_events, fingerprinted),
    ),
    "left out of the ledger": ("ledger", edit(out_of_the_ledger, resealed)),
    "an event that the ledger does not hold": ("events", edit_consistently(another, fingerprinted)),
    "the same, told in the events as well": (
        "ledger",
        edit_consistently(
            another,
            lambda facts: facts["events"]["of"].insert(
                1, {"event": "repeat", "count": 1, "of": facts["plan"]["before"][1]}
            ),
            fingerprinted,
        ),
    ),
    "after the steps": ("events", edit(after_the_steps)),
    "less told than was drawn": ("ledger", edit_consistently(quieter, fingerprinted)),
    "many as one": ("events", edit_consistently(many_steps, fingerprinted)),
    "for users": ("claim", edit_consistently(put("plan", "unit", value="users"), claim("unit", "users"))),
    "the attempt that answered left out": ("ledger", edit(without_entry("attempt"), resealed)),
    "answered by another generator": (
        "ledger",
        edit(lambda facts: entry("attempt", "body", {"engine": "queries", "noise": "exact"})(facts), resealed),
    ),
    "an assumption left out": ("mechanism", edit(without_assumption)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(folder: Path, name: str) -> None:
    finder, forge = FORGERIES[name]
    forge(folder)
    assert_found(finder, folder)


def test_with_metrics_and_a_holdout_both_parts_hold_them(tmp_path: Path) -> None:
    plan = first_plan(metrics=[Metric(noise=9.0, every=3, rows="holdout")], holdout=0.3)
    names = [f"row {i}" for i in range(24)]
    publish(first_run(tmp_path, plan, ids=names), tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    facts = facts_of(tmp_path / "out")
    from discreet.verification.checks.private_metrics import parts

    for part in parts(facts["plan"], facts["events"]):
        assert part["of"][0]["of"]["query"] == "covariance"


def test_an_adaptive_run_began_with_them(tmp_path: Path) -> None:
    plan = adaptive(before=[COMPONENTS], most_steps=9)
    publish(first_run(tmp_path, plan), tmp_path / "out")
    assert verify(tmp_path / "out").accepted, verify(tmp_path / "out").checks
    assert "before the first step: covariance" in (tmp_path / "out" / "report.html").read_text()

    def hidden(facts: Facts) -> None:
        """The components left out of ledger and events, which are what was charged: the plan still holds them."""
        out_of_the_events(facts)
        out_of_the_ledger(facts)

    edit(hidden, resealed)(tmp_path / "out")
    found = {check.name: check.passed for check in verify(tmp_path / "out").checks}
    assert not found["events"]
