"""What a plan guarantees, what is set aside for rare events, and calibration to a budget."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_plans import make

from discreet import InputError, guarantee
from discreet.plan.pricing import LEAST
from discreet.sampling import OVERFLOW


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_calibrate_stays_within_the_budget_and_returns_a_new_plan(epsilon: float) -> None:
    plan = make(noise_multiplier=[(2.0, 15), (1.0, 5)])
    calibrated = plan.calibrate(epsilon)
    assert calibrated is not plan
    assert plan == make(noise_multiplier=[(2.0, 15), (1.0, 5)])
    assert 0.99 * epsilon < calibrated.guarantee().epsilon <= epsilon
    first, second = calibrated.noise
    assert first.multiplier / second.multiplier == pytest.approx(2.0)
    assert (first.steps, second.steps) == (15, 5)


def test_calibrate_to_another_delta_returns_a_plan_with_that_delta() -> None:
    calibrated = make().calibrate(1.0, delta=1e-6)
    assert calibrated.delta == 1e-6
    assert calibrated.guarantee().epsilon <= 1.0


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_calibrate_refuses_a_budget_that_is_none(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        make().calibrate(epsilon)


@pytest.mark.parametrize("changes", [{"noise_multiplier": 1e6}, {"batch": 1e-9}])
def test_no_plan_claims_less_than_another_accountant_can_confirm(changes: dict[str, Any]) -> None:
    """One Gaussian step of noise s moves a set's probability by at most 1 / (s sqrt(2 pi)) < delta, a sampled one by at
    most its rate: epsilon 0 is proved, and 1e-12 is claimed."""
    plan = make(steps=1, **changes)
    assert guarantee(plan.event(), 1e-5, plan.adjacency).epsilon == 0
    assert plan.guarantee().epsilon == LEAST
    with pytest.raises(InputError, match="no plan claims an epsilon below 1e-12"):
        plan.calibrate(1e-13)


def test_a_guarantee_at_a_larger_delta_is_smaller() -> None:
    plan = make()
    assert plan.guarantee(1e-3).epsilon < plan.guarantee().epsilon
    assert plan.guarantee(1e-3).delta == 1e-3


def test_a_billionth_of_delta_is_set_aside_for_batches_that_are_too_large() -> None:
    plan = make()
    found = plan.guarantee()
    assert found.delta == plan.delta
    stated = guarantee(plan.event(), plan.delta - 1e-9 * plan.delta, plan.adjacency).epsilon
    assert found.epsilon == stated * (1 + 5e-4)  # room for another accountant
    assert found.epsilon >= guarantee(plan.event(), plan.delta, plan.adjacency).epsilon
    assert plan.steps * (1 + math.exp(found.epsilon)) * OVERFLOW <= 1e-9 * plan.delta


@pytest.mark.parametrize(
    "changes", [{"delta": 1e-95}, {"noise_multiplier": 0.03, "batch": 1000}], ids=["delta", "epsilon"]
)
def test_where_what_is_set_aside_is_too_little_epsilon_is_infinite(changes: dict[str, Any]) -> None:
    plan = make(**changes)
    assert math.isfinite(guarantee(plan.event(), plan.delta, plan.adjacency).epsilon)
    assert plan.guarantee().epsilon == math.inf


@given(epsilon=st.floats(0.1, 8), delta=st.floats(1e-12, 1e-3))
@settings(max_examples=10)
def test_calibration_leaves_room_for_what_is_set_aside(epsilon: float, delta: float) -> None:
    assert make(delta=delta).calibrate(epsilon).guarantee().epsilon <= epsilon
