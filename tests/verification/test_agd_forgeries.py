"""Certificates of AGD: choices count, and forgeries with the check that must find each."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from agd_runs import agd_training
from forging import Facts, assert_found, claim, edit, edit_consistently, facts_of, put, resealed, times

from discreet import publish, verify
from discreet.core.errors import InputError
from discreet.verification.recompute import exponential


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agd")
    publish(agd_training(folder, stream=None).run(), folder / "out")
    return folder / "out"


def choice_events(facts: Facts) -> list[dict[str, Any]]:
    """Every choice, in the events and in the ledger."""
    blocks = [entry["body"] for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]
    parts = [part for block in (facts["events"], *blocks) for part in block["of"]]
    return [part["of"] for part in parts if part["of"]["event"] == "bounded_range"]


def every_choice(name: str, value: Any) -> Any:
    def change(facts: Facts) -> None:
        for choice in choice_events(facts):
            choice[name] = value(choice[name]) if callable(value) else value

    return change


def without_choices(facts: Facts) -> None:
    """No choice was ever charged, it says, consistently."""
    position = 0
    facts["events"]["of"] = [one for one in facts["events"]["of"] if one["of"]["event"] == "gaussian"]
    for entry in facts["ledger"]["entries"]:
        if entry["kind"] == "reservation":
            entry["body"]["of"] = [one for one in entry["body"]["of"] if one["of"]["event"] == "gaussian"]
            entry["position"], entry["steps"] = position, 1
            position += 1
    facts["charged_steps"] = position


def one_more(facts: Facts) -> None:
    """Steps are charged once more than the filter allows."""
    reservations = [entry for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]
    last = copy.deepcopy(reservations[-1])
    last["position"] += last["steps"]
    facts["ledger"]["entries"].append(last)
    facts["events"]["of"] += copy.deepcopy(last["body"]["of"])
    facts["charged_steps"] += last["steps"]


FORGERIES: dict[str, tuple[Any, str]] = {
    "choices are cheaper than the plan says": (edit(every_choice("epsilon", times(0.5)), resealed), "events"),
    "choices and policy say half": (
        edit_consistently(every_choice("epsilon", times(0.5)), put("plan", "policy", "epsilon", value=times(0.5))),
        "ledger",
    ),
    "choices count something else": (edit(every_choice("query", "count"), resealed), "events"),
    "choices cost more than the filter has": (
        edit_consistently(
            every_choice("epsilon", times(2.0)), put("plan", "policy", "epsilon", value=times(2.0)), resealed
        ),
        "epsilon",
    ),
    "choices were not charged": (edit(without_choices, resealed), "events"),
    "one step more": (edit(one_more, resealed), "epsilon"),
    "the policy is another": (edit_consistently(put("plan", "policy", value={"kind": "constant"})), "events"),
    "the rows were sampled": (
        edit_consistently(put("plan", "sampling", value={"kind": "poisson", "rate": 0.5})),
        "events",
    ),
    "less is claimed": (edit(claim("epsilon", times(0.9))), "epsilon"),
    "it assumes nothing of choices": (
        edit(put("assumptions", value=lambda said: [one for one in said if "Gumbel" not in one])),
        "mechanism",
    ),
}


def test_the_original_is_accepted(original: Path) -> None:
    verified = verify(original)
    assert verified.accepted, [check for check in verified.checks if not check.passed]
    assert len(choice_events(facts_of(original))) >= 8


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_found_by_the_check_that_is_for_them(folder: Path, name: str) -> None:
    forge, check = FORGERIES[name]
    forge(folder)
    assert_found(check, folder)


def test_choices_are_read_strictly() -> None:
    good = {"event": "bounded_range", "epsilon": 0.5, "query": "loss"}
    step = {"event": "gaussian", "noise_multiplier": 2.0, "query": "clipped_sum"}
    nested = [step, {"event": "repeat", "count": 3, "of": [good, {"event": "repeat", "count": 2, "of": good}]}]
    rest, rho = exponential.apart(nested, "add_remove")
    assert rest == [{"event": "repeat", "count": 1, "of": step}]
    assert rho == pytest.approx(9 * 0.25 / 8, rel=1e-9)
    assert rho >= 9 * 0.25 / 8
    assert exponential.apart(nested, "zero_out")[1] == rho
    assert exponential.apart(nested, "replace_one")[1] == pytest.approx(4 * rho, rel=1e-9)
    bad: list[Any] = [
        {**good, "epsilon": 0.0},
        {**good, "epsilon": float("nan")},
        {**good, "epsilon": True},
        {**good, "query": "covariance"},
        {**good, "more": 1},
        {"event": "repeat", "count": 0, "of": good},
        {"event": "repeat", "count": True, "of": good},
        {"event": "repeat", "count": 10**13, "of": good},
        {"event": "compose", "of": good},
        "bounded_range",
    ]
    for one in bad:
        with pytest.raises(InputError):
            exponential.apart([one], "add_remove")
