"""What a certificate says ex post: recomputed independently, told plainly, and never passed off as a guarantee."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from forging import Facts, assert_found, edit, edit_consistently, facts_of, fingerprinted, put, resealed, times
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import certified_run, tiny_plan

from discreet import publish, verify
from discreet.accounting.adaptive import odometers
from discreet.accounting.adaptive.odometers import (
    DoublingOdometer,
    GaussianOdometer,
    Odometer,
    RenyiOdometer,
    ZcdpOdometer,
)
from discreet.core.errors import InputError
from discreet.core.events import Allocation, Compose, Event, Gaussian, Poisson, Repeat
from discreet.core.events.event_json import to_json
from discreet.publication.pages.certificate_facts import certified_epsilon
from discreet.verification.recompute import odometers as independent

pytestmark = pytest.mark.usefixtures("recomputed_once")

ODOMETERS: dict[str, Odometer] = {
    "doubling": DoublingOdometer(1e-6, (1.5, 3.0, 8.0)),
    "renyi": RenyiOdometer(1e-6, (2.0, 4.5, 20.0)),
    "zcdp": ZcdpOdometer(1e-6, 0.7),
    "gdp": GaussianOdometer(1e-6, 40.0, 0.3),
    "falling": GaussianOdometer(1e-4, 9.0, -0.5),
}


def trainers(odometer: Odometer, event: Event) -> float:
    return odometers.read(
        odometer, odometers.advance(odometer, odometers.start(odometer), odometer.cost(event))
    ).epsilon


@pytest.mark.parametrize("name", ODOMETERS)
@given(multiplier=st.floats(0.5, 30), count=st.integers(1, 60), other=st.floats(1, 30))
@settings(max_examples=10, deadline=None)
def test_both_accountants_read_the_same(name: str, multiplier: float, count: int, other: float) -> None:
    odometer = ODOMETERS[name]
    sampled = name in ("doubling", "renyi")
    step = Poisson(0.02, Gaussian(multiplier)) if sampled else Gaussian(multiplier)
    event = Compose((Repeat(step, count), Gaussian(other)))
    ours, theirs = trainers(odometer, event), independent.reading(odometers.as_dict(odometer), to_json(event))
    if math.isinf(ours):
        assert math.isinf(theirs) or name in ("zcdp", "gdp")
        return
    assert theirs <= ours * (1 + 4e-4) + 1e-9
    assert theirs >= ours * (1 - 4e-4) - 1e-9


@pytest.mark.parametrize("name", ["doubling", "renyi", "zcdp"])
@given(multiplier=st.floats(2, 30), count=st.integers(1, 100), steps=st.integers(6, 50), chosen=st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_periods_of_random_allocation_are_read_as_if_their_step_was_known(
    name: str, multiplier: float, count: int, steps: int, chosen: int
) -> None:
    """Not as one Poisson step of rate 1 / steps: 100 periods of 20 steps at noise 2 have a loss above 6.87."""
    odometer = ODOMETERS[name]
    event = Compose((Repeat(Allocation(steps, chosen, Gaussian(multiplier)), count),))
    theirs = independent.reading(odometers.as_dict(odometer), to_json(event))
    assert theirs == pytest.approx(trainers(odometer, event), rel=4e-4)
    known = Compose((Repeat(Gaussian(multiplier), count * chosen),))
    assert theirs == pytest.approx(trainers(odometer, known), rel=4e-4)


def test_lecuyers_figures() -> None:
    """papers/README, Filters 3: sigma 1, batch 512 of 50,000, 98 steps an epoch, delta 1e-6 reads 4.40 and 4.84."""
    rule = odometers.as_dict(DoublingOdometer(1e-6))
    for epochs, printed in ((6, 4.40), (50, 6.91)):
        event = to_json(Compose((Repeat(Poisson(512 / 50000, Gaussian(1.0)), 98 * epochs),)))
        assert independent.reading(rule, event) == pytest.approx(printed, abs=0.006)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ex-post")
    plan = tiny_plan(odometer="renyi", stop_at=6.0, noise_multiplier=2.0, steps=40)
    publish(certified_run(folder, plan=plan), folder / "out")
    return folder / "out"


def test_the_claim_is_the_whole_plans_and_the_reading_stands_beside_it(original: Path) -> None:
    facts, verified = facts_of(original), verify(original)
    assert verified.accepted, verified.checks
    section = facts["ex_post"]
    assert facts["claim"]["kind"] == "guarantee"
    assert section["kind"] == "ex_post"
    assert 0 < section["charged_steps"] == facts["charged_steps"] < 40  # the odometer ended it
    assert 5 < section["reading"] <= 6.0
    assert facts["claim"]["lower"] is None
    detail = next(check.detail for check in verified.checks if check.name == "ex post")
    assert detail.startswith("ex post, no guarantee")
    assert f"epsilon {facts['claim']['epsilon']:.1f}"[:11] in verified.summary
    report, card = (original / "report.html").read_text(), (original / "README.md").read_text()
    for page in (report, card):
        assert "no guarantee" in page
        assert "exceeds the reading" in page
    assert "What was said afterwards" in report


def said(name: str, value: Any) -> Any:
    return put("ex_post", name, value=value)


def passed_off(facts: Facts) -> None:
    """The reading as the epsilon that is claimed, of the kind that it is."""
    facts["claim"] |= {"kind": "ex_post", "epsilon": facts["ex_post"]["reading"], "method": "renyi-odometer"}
    facts["ledger"]["entries"][0]["body"]["epsilon"] = facts["ex_post"]["reading"]


def as_guarantee(facts: Facts) -> None:
    """The same under the name of a guarantee."""
    passed_off(facts)
    facts["claim"] |= {"kind": "guarantee", "method": "pld"}


def lower_reading(facts: Facts) -> None:
    """A lower figure in the section and in its sentence."""
    shown = f"{math.ceil(facts['ex_post']['reading'] * 1e4) / 1e4:.4f}"
    facts["ex_post"]["reading"] = 2.0
    facts["ex_post"]["sentence"] = facts["ex_post"]["sentence"].replace(shown, "2.0000")


FORGERIES: dict[str, tuple[str, Any]] = {
    "passed off as the claim": ("claim", edit(passed_off, resealed)),
    "passed off as a guarantee": ("epsilon", edit(as_guarantee, resealed)),
    "called a guarantee": ("ex post", edit(said("kind", "guarantee"))),
    "called an estimate": ("ex post", edit(said("kind", "estimate"))),
    "a lower reading": ("ex post", edit(lower_reading)),
    "a lower reading, not in the sentence": ("ex post", edit(said("reading", times(1.001)))),
    "a reading of NaN": ("ex post", edit(said("reading", math.nan))),
    "a reading of true": ("ex post", edit(said("reading", True))),
    "a sentence that promises": ("ex post", edit(said("sentence", "the model is (6, 1e-5)-differentially private"))),
    "another delta": ("ex post", edit(said("delta", 1e-9))),
    "another adjacency": ("ex post", edit(said("adjacency", "replace_one"))),
    "another unit": ("ex post", edit(said("unit", "user"))),
    "another odometer's name": ("ex post", edit(said("method", "doubling-odometer"))),
    "fewer steps": ("ex post", edit(said("charged_steps", 3))),
    "a further field": ("ex post", edit(said("epsilon", 1.0))),
    "left out": ("ex post", edit(put("ex_post", value=None))),
    "made up": ("ex post", edit_consistently(put("plan", "odometer", value=None), fingerprinted)),
    "an odometer with a larger delta": (
        "ex post",
        edit_consistently(put("plan", "odometer", "odometer", "delta", value=1e-2), fingerprinted),
    ),
    "an odometer with no order": (
        "ex post",
        edit_consistently(put("plan", "odometer", "odometer", "orders", value=[]), fingerprinted),
    ),
    "an odometer for other neighbours": (
        "ex post",
        edit_consistently(put("plan", "odometer", "odometer", "adjacency", value="zero_out"), fingerprinted),
    ),
    "an odometer that should have ended the run": (
        "ex post",
        edit_consistently(put("plan", "odometer", "most", value=4.0), fingerprinted),
    ),
    "its assumption left out": ("mechanism", edit(lambda facts: facts["assumptions"].pop(4))),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(folder: Path, name: str) -> None:
    finder, forge = FORGERIES[name]
    forge(folder)
    assert_found(finder, folder)


def test_no_page_prints_it_as_the_certified_epsilon(original: Path) -> None:
    facts = facts_of(original)
    passed_off(facts)
    with pytest.raises(InputError, match="only a guarantee"):
        certified_epsilon(facts)


def test_a_reading_that_says_nothing(tmp_path: Path) -> None:
    """Unsampled steps with little noise are beyond the cap of the odometer: nothing is known, and that is said."""
    from discreet.plan import NoSampling, Plan

    plan = Plan.make(
        NoSampling(),
        population=24,
        steps=3,
        clip_norm=1.0,
        delta=1e-5,
        noise_multiplier=1.0,
        odometer=GaussianOdometer(1e-5, 2.0),
    )
    publish(certified_run(tmp_path, plan=plan), tmp_path / "out")
    assert facts_of(tmp_path / "out")["ex_post"]["reading"] is None
    assert verify(tmp_path / "out").accepted
    assert "It says nothing" in (tmp_path / "out" / "report.html").read_text()
