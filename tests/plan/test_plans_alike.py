"""Fixed and adaptive plans take the same arguments, refuse them with the same words, and are shown alike."""

import re
from typing import Any

import pytest

from discreet import AdaptivePlan, InputError, Plan
from discreet.accounting import schedules
from discreet.accounting.adaptive.odometers import RenyiOdometer
from discreet.cli.app import run
from discreet.core.rounding import places_up
from discreet.plan import Constant, Metric

FIXED: dict[str, Any] = {"population": 100, "delta": 1e-5, "clip_norm": 1.0, "batch": 10, "steps": 5}
ADAPTIVE: dict[str, Any] = {
    **{name: FIXED[name] for name in ("population", "delta", "clip_norm", "batch")},
    "epsilon": 1.0,
    "policy": Constant(),
    "noise_multiplier": 5.0,
    "most_steps": 10,
}
BOTH = [(Plan.poisson, FIXED), (AdaptivePlan.poisson, ADAPTIVE)]


@pytest.mark.parametrize(("make", "given"), BOTH)
def test_a_batch_above_the_population_is_refused_in_words(make: Any, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^batch must be at most the population, 100, got 200:"):
        make(**given | {"batch": 200})


@pytest.mark.parametrize(("make", "given"), BOTH)
def test_a_holdout_may_be_a_percentage(make: Any, given: dict[str, Any]) -> None:
    metric = Metric(noise=40.0, rows="holdout")
    assert make(**given, holdout="10%", metrics=[metric]) == make(**given, holdout=0.1, metrics=[metric])
    for bad in ("x%", "0.1", "", [0.1]):
        with pytest.raises(InputError, match=r"^holdout is a share, 0.1 or '10%', got "):
            make(**given, holdout=bad, metrics=[metric])
    with pytest.raises(InputError, match="holdout must be greater than 0 and less than 1"):
        make(**given, holdout="100%", metrics=[metric])


@pytest.mark.parametrize(("make", "given"), BOTH)
def test_a_clip_norm_out_of_range_is_named(make: Any, given: dict[str, Any]) -> None:
    for bad in (0, -1.0, 1e31):
        with pytest.raises(InputError, match=r"^plan: clip_norm must be from 1e-30 to 1e30, got "):
            make(**given | {"clip_norm": bad})
    with pytest.raises(InputError, match="greater than or equal to 1e-30, got 0"):
        make(**given | {"clip_norm": [(0, given.get("steps", 10))]})


@pytest.mark.parametrize(("make", "given"), BOTH)
def test_a_plan_is_shown_a_line_each(make: Any, given: dict[str, Any]) -> None:
    plan = make(**given)
    lines = str(plan).splitlines()
    assert lines[0] == type(plan).__name__
    assert "  population: 100" in lines
    assert f"  epsilon: {places_up(plan.guarantee().epsilon)}" in lines
    assert "<table>" in plan._repr_html_()
    assert all(value in plan._repr_html_() for value in (plan.sampling.kind, plan.clipping.kind))


def test_what_is_chosen_is_said_to_be() -> None:
    shown = str(AdaptivePlan.poisson(**ADAPTIVE))
    for line in ("steps: at most 10", "noise multiplier: 5 at first", "policy: constant", "filter: rdp-curve"):
        assert f"  {line}\n" in shown


@pytest.mark.parametrize("name", ["steps", "noise", "filter", "nois_multiplier"])
def test_arguments_of_an_adaptive_plan_are_listed(name: str) -> None:
    """Fields that `make` fills itself are none of them."""
    with pytest.raises(InputError, match=f"^plan: unknown argument '{name}'; known: sampling, epsilon") as found:
        AdaptivePlan.poisson(**ADAPTIVE, **{name: 3})
    known = str(found.value).partition("known: ")[2].split(", ")
    assert {"noise_multiplier", "filter_kind", "metrics", "block"} <= set(known)
    assert not {"noise", "filter", "initial_state", "kind"} & set(known)


def test_a_plan_at_another_delta_reads_its_odometer_there() -> None:
    plan = Plan.poisson(**FIXED, odometer="renyi", stop_at=3.0)
    moved = plan.calibrate(2.0, delta=1e-3)
    assert moved.odometer is not None
    assert (moved.odometer.odometer.delta, moved.odometer.most) == (1e-3, 3.0)
    assert moved.delta == 1e-3
    same = plan.calibrate(2.0)
    assert same.odometer == plan.odometer
    own = Plan.poisson(**FIXED, odometer=RenyiOdometer(1e-6))
    assert own.calibrate(2.0, delta=1e-3).odometer == own.odometer


@pytest.mark.parametrize(("asked", "delta"), [(1e6, 1e-5), (1e-7, 1e-15)])
def test_an_epsilon_out_of_reach_is_named_as_it_was_asked(asked: float, delta: float) -> None:
    with pytest.raises(InputError, match=re.escape(f"epsilon {asked:g}") + "[ ;]"):
        Plan.poisson(**FIXED | {"delta": delta}).calibrate(asked)


@pytest.mark.parametrize("epsilon", [200.0, 500.0])
def test_an_epsilon_that_nothing_proves_is_refused(epsilon: float) -> None:
    """One step may overflow with probability 1e-100 at most; e^200 (1e86) times that is above a billionth of delta."""
    said = f"^epsilon {epsilon:g} is out of reach: batches that are too large for the float slack"
    with pytest.raises(InputError, match=said):
        Plan.poisson(**FIXED).calibrate(epsilon)
    with pytest.raises(InputError, match=said):
        AdaptivePlan.poisson(**ADAPTIVE | {"epsilon": epsilon})


def test_a_schedule_as_text_is_parsed_by_the_function_that_the_error_names() -> None:
    text = "exponential:initial=10,rate=0.01"
    with pytest.raises(InputError, match=r"or a schedule: accounting\.schedules\.parse\(TEXT\)$"):
        Plan.poisson(**FIXED, noise_multiplier=text)
    assert Plan.poisson(**FIXED, noise_multiplier=schedules.parse(text)).noise[0].multiplier == 10


def test_a_delta_above_one_in_the_population_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan.poisson(**FIXED | {"delta": 0.5})
    assert "  delta: 0.5 (above 1 / population = 0.01: one unit could be given away whole)" in str(plan).splitlines()
    assert str(Plan.poisson(**FIXED)).endswith("\n  delta: 1e-05")
    assert run(["plan", "digits", "--delta", "0.5"]) == 0
    said = "at delta 0.5 (above 1 / population = 0.0007: one unit could be given away whole)"
    assert said in capsys.readouterr().out
