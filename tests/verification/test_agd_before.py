"""Certificates of AGD runs that answered queries first: these take no turns with gradients and choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agd_runs import agd, agd_training
from forging import Facts, edit, resealed
from problems import linear

from discreet import publish, verify
from discreet.core.adjacency import Query
from discreet.core.events import BoundedRange, Event, Gaussian
from discreet.training import answered_first
from discreet.verification.checks.plan_events import after

COUNT = Gaussian(40.0, Query.COUNT)
CASES: dict[str, list[Event]] = {
    "one": [COUNT],
    "two alike": [COUNT, COUNT],
    "a sum and a choice": [Gaussian(41.0), BoundedRange(0.05, Query.LOSS), COUNT],
}


def published(folder: Path, before: list[Event]) -> Path:
    plan = agd(epsilon=6.0, splits=4, before=before)
    with answered_first(plan, linear(), folder / "run") as account:
        for event in before:
            account.pay(event)
    publish(agd_training(folder, plan=plan, resume=True, stream=None).run(), folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("agd"), CASES["one"])


@pytest.mark.parametrize("name", CASES)
def test_an_honest_certificate_is_accepted(tmp_path: Path, name: str) -> None:
    verified = verify(published(tmp_path, CASES[name]))
    assert verified.accepted, [check for check in verified.checks if not check.passed]


def reservations(facts: Facts) -> list[list[dict[str, Any]]]:
    return [entry["body"]["of"] for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]


def a_query_for_a_gradient(facts: Facts) -> None:
    """The last step has the query once more, where its gradient should be."""
    query = facts["events"]["of"][0]["of"]
    facts["events"]["of"][-2]["of"] = reservations(facts)[-1][0]["of"] = query


def a_choice_before_its_gradient(facts: Facts) -> None:
    for parts in (facts["events"]["of"], reservations(facts)[-1]):
        parts[-2:] = parts[:-3:-1]


@pytest.mark.parametrize("change", [a_query_for_a_gradient, a_choice_before_its_gradient])
def test_what_takes_no_turns_is_found(original: Path, folder: Path, change: Any) -> None:
    edit(change, resealed)(folder)
    failed = {check.name: check.detail for check in verify(folder).checks if not check.passed}
    assert "do not take turns" in failed["events"], failed
    facts = json.loads((original / "certificate.json").read_text())
    assert facts["events"]["of"][0]["of"]["query"] == "count"


def test_events_are_dropped_one_by_one() -> None:
    """A query may be equal to the first gradient, and is then told together with it."""
    one, other = {"event": "gaussian"}, {"event": "bounded_range"}
    runs = [(one, 3), (other, 1), (one, 1)]
    assert after(runs, 0) == runs
    assert after(runs, 2) == [(one, 1), (other, 1), (one, 1)]
    assert after(runs, 4) == [(one, 1)]
    assert after(runs, 9) == []
