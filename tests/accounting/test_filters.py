"""Filters as pure functions: what is admitted, to the last bit, and what each promises."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from budgets import ALL, COUNTED, PLAIN, SAMPLED
from hypothesis import given, settings

from discreet.accounting.account import Method, guarantee
from discreet.accounting.adaptive import filter_decision, filters
from discreet.accounting.adaptive.filter_decision import decide, propose, start
from discreet.accounting.adaptive.filter_fit import at_order, order_filter
from discreet.accounting.adaptive.filters import (
    BasicFilter,
    Conversion,
    Filter,
    GaussianFilter,
    RdpCurveFilter,
    RdpOrderFilter,
    ZcdpFilter,
)
from discreet.accounting.theories import gdp, rdp, zcdp
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Laplace, Poisson, Repeat
from discreet.core.guarantee import Guarantee

assert {budget.kind for budget in ALL} == set(filters.KINDS), "every kind is tested"
names = [f"{budget.kind} {getattr(budget, 'conversion', '')}".strip() for budget in ALL]


@pytest.mark.parametrize("budget", ALL, ids=names)
def test_json_keeps_every_bit(budget: Filter) -> None:
    text = json.dumps(filters.as_dict(budget), allow_nan=False)
    assert filters.from_dict(json.loads(text)) == budget


@pytest.mark.parametrize(
    "change",
    [
        {"filter": "sum"},
        {"filter": None},
        {"extra": 1},
        {"delta": 1.0},
        {"delta": math.nan},
        {"limit": 0},
        {"limit": math.inf},
        {"limit": "1"},
        {"order": 1.0},
        {"order": math.nan},
        {"adjacency": "none"},
        {"conversion": "best"},
        {"limit": 1e-300},
    ],
    ids=str,
)
def test_what_is_no_filter_is_refused(change: dict[str, object]) -> None:
    data = filters.as_dict(RdpOrderFilter(5.0, 1.0, 1e-5))
    with pytest.raises(InputError):
        filters.from_dict(data | change)


def test_curves_need_increasing_orders_and_a_limit_each() -> None:
    for orders, limits in [((2.0, 2.0), (1.0, 1.0)), ((3.0, 2.0), (1.0, 1.0)), ((2.0,), (1.0, 1.0)), ((), ())]:
        with pytest.raises(InputError):
            RdpCurveFilter(orders, limits, 1e-5)
    with pytest.raises(InputError, match="wrong type"):
        filters.from_dict(filters.as_dict(RdpCurveFilter((2.0,), (1.0,), 1e-5)) | {"limits": 1.0})


@pytest.mark.parametrize("budget", ALL, ids=names)
@pytest.mark.parametrize("bad", [math.nan, -1.0, -math.inf, "1", None, True])
def test_a_cost_that_is_no_cost_is_an_error(budget: Filter, bad: float) -> None:
    before = start(budget)
    with pytest.raises(InputError):
        decide(budget, before, (*before[1:], bad))
    with pytest.raises(InputError):
        decide(budget, (*before[1:], bad), before)
    with pytest.raises(InputError, match="numbers"):
        decide(budget, before, (*before, 0.0))


@pytest.mark.parametrize("budget", ALL, ids=names)
def test_nothing_and_precisely_the_rest_are_admitted_and_more_is_refused(budget: Filter) -> None:
    before = start(budget)
    assert decide(budget, before, before) == filter_decision.Decision(True, before)
    assert decide(budget, before, budget.limits) == filter_decision.Decision(True, budget.limits)
    tiny = (5e-324,) * len(before)
    assert decide(budget, budget.limits, tiny) == filter_decision.Decision(False, budget.limits)
    for index in range(len(before)):
        over = list(budget.limits)
        over[index] = math.nextafter(over[index], math.inf)
        assert not decide(budget, before, over).admitted
        over[index] = math.inf
        assert decide(budget, before, over) == filter_decision.Decision(False, before)
        over[index] = 1e308
        assert not decide(budget, before, over).admitted


@pytest.mark.parametrize("budget", ALL, ids=names)
def test_what_is_over_the_budget_cannot_have_been_spent(budget: Filter) -> None:
    over = tuple(math.nextafter(limit, math.inf) for limit in budget.limits)
    with pytest.raises(InputError, match="over the budget"):
        decide(budget, over, start(budget))


# What each promises, against other theories ------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ALL, ids=names)
def test_the_guarantee_is_the_budget(budget: Filter) -> None:
    found = budget.guarantee()
    assert isinstance(found, Guarantee)
    assert 3.0 * (1 - 1e-6) <= found.epsilon <= 3.0
    assert (found.delta, found.adjacency, found.method) == (1e-5, budget.adjacency, f"{budget.kind}-filter")
    assert budget.guarantee(1e-3).epsilon <= found.epsilon
    if isinstance(budget, BasicFilter):
        with pytest.raises(NotProved):
            budget.guarantee(1e-6)
    else:
        assert budget.guarantee(1e-6).epsilon > found.epsilon


def steps(budget: Filter, event: Event) -> int:
    """How many times an event is admitted."""
    spent = start(budget)
    for count in itertools.count():
        decision = propose(budget, spent, event)
        if not decision.admitted:
            return count
        spent = decision.spent
    raise AssertionError


def most(event: Event, epsilon: Callable[[Event], float]) -> int:
    """The largest number of repetitions of a fixed plan that a theory allows for epsilon 3."""
    low, high = 1, 2
    while epsilon(Repeat(event, high)) <= 3.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(Repeat(event, middle)) <= 3.0 else (low, middle)
    return low


def test_on_the_planned_course_a_filter_admits_what_a_fixed_plan_may_do() -> None:
    """Against the accountants of fixed plans: the same for zCDP and Gaussian DP, as good as the orders for Rényi."""
    by = {
        method: lambda event, m=method: guarantee(event, 1e-5, method=m).epsilon for method in Method if method.proves
    }
    assert steps(ALL[3], PLAIN) == most(PLAIN, by[Method.ZCDP])
    assert steps(ALL[4], PLAIN) == most(PLAIN, by[Method.GDP]) > steps(ALL[3], PLAIN)
    planned = most(SAMPLED, by[Method.RDP])
    assert 0.999 * planned <= steps(ALL[0], SAMPLED) <= planned
    assert 0.95 * planned <= steps(ALL[2], SAMPLED) <= planned
    classic = most(SAMPLED, by_classic_conversion)
    assert 0.999 * classic <= steps(ALL[1], SAMPLED) <= classic


def by_classic_conversion(event: Event) -> float:
    """Of the planned course, at the best order."""
    assert isinstance(event, Repeat)
    curve = rdp.compose([(lambda orders: rdp.sampled_gaussian(0.01, 1.0, orders), event.count)])
    return rdp.epsilon(curve, 1e-5, rdp.classic)[0]


def test_budgets_in_closed_form() -> None:
    """One order by the printed formulas; zCDP and Gaussian DP by the conversions of their modules."""
    classic = at_order(5.0, 3.0, 1e-5, conversion=Conversion.CLASSIC)
    assert classic.limit == pytest.approx(3 - math.log(1e5) / 4, rel=1e-8)
    improved = at_order(5.0, 3.0, 1e-5)
    assert improved.limit == pytest.approx(3 - math.log(1e5) / 4 - math.log(4 / 5) + math.log(5) / 4, rel=1e-8)
    assert isinstance(ALL[3], ZcdpFilter)
    assert zcdp.epsilon(ALL[3].rho, 1e-5) == pytest.approx(3, rel=1e-6)
    assert isinstance(ALL[4], GaussianFilter)
    assert gdp.delta_bounds(math.sqrt(ALL[4].mu_squared), 3.0)[1] == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(InputError, match="nothing to spend at order 2"):
        at_order(2.0, 3.0, 1e-5)
    with pytest.raises(InputError, match="releases nothing"):
        order_filter(Compose(()), 3.0, 1e-5)


def test_costs_in_closed_form() -> None:
    """D = alpha / 2 s^2, rho = 1 / 2 s^2, mu^2 = 1 / s^2 (with the replace-one ratio 2), and their sums."""
    event = Compose((Repeat(Gaussian(4.0), 3), Gaussian(2.0, Query.COUNT)))
    for adjacency, precision in ((Adjacency.ADD_REMOVE, 3 / 16 + 1 / 4), (Adjacency.REPLACE_ONE, 3 / 4 + 1 / 4)):
        for budget, factor in (
            (RdpOrderFilter(6.0, 50.0, 1e-5, adjacency=adjacency), 3.0),
            (ZcdpFilter(50.0, 1e-5, adjacency), 0.5),
            (GaussianFilter(50.0, 1e-5, adjacency), 1.0),
        ):
            (cost,) = budget.cost(event)
            assert factor * precision <= cost <= factor * precision * (1 + 1e-9)
    (pure,) = ZcdpFilter(50.0, 1e-5).cost(Laplace(2.0))
    assert 0.125 <= pure <= 0.125 * (1 + 1e-9)


def test_what_a_filter_has_no_theorem_for_is_refused() -> None:
    for budget, event in (
        (ALL[3], SAMPLED),
        (ALL[4], SAMPLED),
        (ALL[4], Laplace(1.0)),
        (ALL[5], PLAIN),
        (RdpOrderFilter(5.0, 1.0, 1e-5, adjacency=Adjacency.REPLACE_ONE), SAMPLED),
        (ALL[0], Poisson(0.1, Laplace(1.0))),
    ):
        with pytest.raises(NotProved):
            propose(budget, start(budget), event)


# Adaptive policies --------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.integers(0, len(COUNTED) - 1), st.data())
def test_no_policy_overspends_and_what_is_spent_is_what_was_released(which: int, data: st.DataObject) -> None:
    """A random policy: the next event and its number depend on all decisions so far. Sums are checked as fractions."""
    budget = COUNTED[which]
    rates = st.sampled_from([1.0] if which >= 3 else [0.001, 0.01, 0.3, 1.0])
    events = [Poisson(data.draw(rates), Gaussian(data.draw(st.sampled_from([0.6, 1.0, 3.7, 40.0])))) for _ in range(3)]
    table = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), min_size=1, max_size=8))
    spent, released, state = start(budget), [], 0
    for _ in range(data.draw(st.integers(1, 12))):
        choice, count = table[state % len(table)]
        event = Repeat(events[choice], count) if count > 1 else events[choice]
        before = spent
        decision = propose(budget, spent, event)
        spent = decision.spent
        cost = [min(amount, 1e300) for amount in budget.cost(events[choice])]  # an infinite one does not fit either
        exact = [Fraction(a) + count * Fraction(c) for a, c in zip(before, cost, strict=True)]
        fits = all(amount <= Fraction(limit) for amount, limit in zip(exact, budget.limits, strict=True))
        assert decision.admitted == fits
        if fits:
            released.append(event)
            assert [Fraction(amount) for amount in spent] == exact
        else:
            assert spent == before
        state = 3 * state + 1 + decision.admitted
        assert all(amount <= limit for amount, limit in zip(spent, budget.limits, strict=True))
    assert tuple(json.loads(json.dumps(spent, allow_nan=False))) == spent
    if released:
        assert spent == budget.cost(Compose(tuple(released))) == budget.cost(Compose(tuple(reversed(released))))
