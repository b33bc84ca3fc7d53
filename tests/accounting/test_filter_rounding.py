"""What filters make of numbers: costs and sums rounded up, and nothing at the ends of the range free."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from budgets import COUNTED, PLAIN
from hypothesis import given

from discreet.accounting.adaptive import costs, filters
from discreet.accounting.adaptive.filter_decision import decide, propose, start
from discreet.accounting.adaptive.filters import (
    BasicFilter,
)
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson, Repeat


@given(st.floats(0, 1e300), st.floats(1e-280, 1e300))
def test_costs_round_up_by_less_than_a_quantum(amount: float, limit: float) -> None:
    quantum = math.ulp(limit)
    rounded = costs.round_up(amount, quantum)
    if math.isinf(rounded):
        assert amount > limit
    else:
        assert Fraction(amount) <= Fraction(rounded) < Fraction(amount) + Fraction(quantum)
        assert (Fraction(rounded) / Fraction(quantum)).denominator == 1


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1e-5)), max_size=20))
def test_the_basic_filter_rounds_up(charges: list[tuple[float, float]]) -> None:
    budget, admitted = BasicFilter(3.0, 1e-5), []
    spent = start(budget)
    for charge in charges:
        decision = decide(budget, spent, charge)
        spent = decision.spent
        admitted += [charge] * decision.admitted
    for amount, values, limit in zip(spent, zip((0.0, 0.0), *admitted, strict=True), budget.limits, strict=True):
        exact, most = sum(map(Fraction, values)), len(admitted) * Fraction(math.ulp(limit))
        assert exact <= Fraction(amount) <= min(Fraction(limit), exact + most)


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf, None])
def test_a_policy_that_returns_no_multiplier_fails_before_a_cost_is_known(bad: float) -> None:
    with pytest.raises(InputError, match="noise_multiplier"):
        Gaussian(bad)
    with pytest.raises(InputError, match="rate"):
        Poisson(2.0 if bad is None else bad, PLAIN)


def test_nothing_that_was_released_is_free() -> None:
    """Noise so large that the cost underflows costs one last digit of the limit."""
    for budget in COUNTED:
        assert budget.cost(Gaussian(1e150)) == filters.quanta(budget)
        assert budget.cost(Repeat(Gaussian(1e150), 5)) == tuple(5 * quantum for quantum in filters.quanta(budget))


def test_noise_beyond_all_range_costs_everything() -> None:
    for budget in COUNTED:
        assert not propose(budget, start(budget), Gaussian(1e-300)).admitted
        assert not propose(budget, start(budget), Repeat(PLAIN, 10**400)).admitted
