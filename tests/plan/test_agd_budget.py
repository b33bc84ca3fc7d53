"""AGD's plan: what the next gradient costs after every choice, how a budget is split, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.adaptive.filter_decision import propose, start
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError
from discreet.core.events import BoundedRange, Compose, Event, Gaussian
from discreet.core.events.event_json import to_json
from discreet.plan import (
    AdaptiveClipping,
    AdaptivePlan,
    Constant,
    Controls,
    Counts,
    History,
    LineSearch,
    NoSampling,
    Phase,
    PoissonSampling,
    agd_plan,
)
from discreet.verification.recompute import filters as independent

START = Controls(8.0, 100.0)


def plan(**changes: Any) -> AdaptivePlan:
    given: dict[str, Any] = {"population": 100, "epsilon": 1.0, "delta": 1e-5, "bound": 3.0, "clip_norm": 1.0}
    return agd_plan(**(given | changes))


def history(*sizes: float | None) -> History:
    return History(tuple(Phase(2 * i, START, step_size=size) for i, size in enumerate(sizes)), START, lambda _: 1.0)


def noise_after(search: LineSearch, *sizes: float | None) -> float:
    controls = search(len(sizes), history(*sizes))
    assert controls is not None
    assert controls.expected_batch == START.expected_batch
    return controls.noise_multiplier


def test_a_choice_of_0_raises_the_budget_and_costs_the_difference() -> None:
    """The algorithm of the paper: rho <- (1 + growth) rho, and only growth x rho is drawn at the same place."""
    search = LineSearch(bound=1.0, epsilon=0.1, growth=0.25)
    rho = 1 / (2 * 8.0**2)
    assert noise_after(search) == 8.0
    assert noise_after(search, 0.5) == 8.0
    assert 1 / (2 * noise_after(search, 0.0) ** 2) == pytest.approx(0.25 * rho, rel=1e-14)
    assert 1 / (2 * noise_after(search, 0.0, 0.0) ** 2) == pytest.approx(1.25 * 0.25 * rho, rel=1e-14)
    assert 1 / (2 * noise_after(search, 0.0, 0.0, 0.1) ** 2) == pytest.approx(1.25**2 * rho, rel=1e-14)
    assert 1 / (2 * noise_after(search, 0.0, 0.1, 0.0) ** 2) == pytest.approx(1.25 * 0.25 * rho, rel=1e-14)
    assert noise_after(search, None) == 8.0  # a step whose choice was lost: nothing was learned


@given(st.lists(st.sampled_from([0.0, 0.0, 0.5, 2.0]), max_size=40), st.floats(0.01, 3.0))
def test_what_is_drawn_at_one_place_adds_up_to_the_budget(sizes: list[float], growth: float) -> None:
    """At every choice the precisions drawn since the last move are those of one gradient with all of the budget."""
    search, held, total = LineSearch(bound=1.0, epsilon=0.1, growth=growth), 0.0, 1 / 8.0**2
    for i, size in enumerate(sizes):
        held += 1 / noise_after(search, *sizes[:i]) ** 2
        assert held == pytest.approx(total, rel=1e-9)
        if size == 0:
            total *= 1 + growth
        else:
            held = 0.0


def test_the_largest_step_follows_those_that_were_chosen() -> None:
    search = LineSearch(bound=1.0, epsilon=0.1, candidates=4, largest=2.0, widen=0.5, every=2)
    phases = history(1.0, 0.0, 0.5, 0.25, 0.125, 2.0).phases
    assert search.step_sizes(()) == (0.0, 0.5, 1.0, 1.5, 2.0)
    assert search.step_sizes(phases[:2]) == (0.0, 0.5, 1.0, 1.5, 2.0)  # one move
    assert search.step_sizes(phases[:3])[-1] == 1.5  # 1.5 times the largest of 1.0 and 0.5
    assert search.step_sizes(phases[:4])[-1] == 1.5
    assert search.step_sizes(phases[:5])[-1] == 0.375  # of 0.25 and 0.125
    assert search.step_sizes(phases)[-1] == 0.375
    assert search.step_sizes(phases + history(1.0).phases)[-1] == 2.0  # never more than at first


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("choices", [0.5, 0.2])
def test_a_budget_is_split_between_gradients_and_choices(adjacency: Adjacency, choices: float) -> None:
    made = plan(adjacency=adjacency, choices=choices, splits=30)
    search = made.line_search
    assert search is not None
    gradient = made.filter.cost(Gaussian(made.noise))[0]
    choice = made.filter.cost(search.event)[0]
    assert choice / (choice + gradient) == pytest.approx(choices)
    assert 30 <= made.filter.limits[0] / (choice + gradient) < 30 * (1 + 1e-9)
    assert made.price(made.start) == made.filter.cost(Compose((Gaussian(made.noise), search.event)))
    assert made.guarantee().epsilon <= 1.0
    assert made.filter.kind == "zcdp"


def run(made: AdaptivePlan, sizes: list[float]) -> list[Event]:
    """What would be charged if the choices were these, over and over."""
    search = made.line_search
    assert search is not None
    spent, charged, phases = start(made.filter), [], []
    while True:
        seen = History(tuple(phases), made.start, lambda _: 1.0)
        controls = made.checked(made.policy(len(phases), seen))
        block = made.block_of(controls, len(charged), 1)
        decision = propose(made.filter, spent, Compose(block))
        if not block or not decision.admitted:
            assert block, "the most steps of the plan are too few for its budget"
            return charged
        spent = decision.spent
        charged += block
        phases.append(Phase(len(charged), controls, step_size=sizes[len(phases) % len(sizes)]))


@settings(max_examples=15, deadline=None)
@given(
    epsilon=st.floats(0.05, 8.0),
    delta=st.sampled_from([1e-8, 1e-5, 1e-3]),
    splits=st.integers(1, 40),
    choices=st.floats(0.05, 0.95),
    growth=st.floats(0.02, 4.0),
    adjacency=st.sampled_from(list(Adjacency)),
    sizes=st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=1, max_size=12),
)
def test_the_budget_is_never_exceeded(
    epsilon: float, delta: float, splits: int, choices: float, growth: float, adjacency: Adjacency, sizes: list[float]
) -> None:
    """In rational numbers from the multipliers, by the filter to the last bit, and by the verifier's own arithmetic."""
    made = plan(
        epsilon=epsilon, delta=delta, splits=splits, choices=choices, adjacency=adjacency, search={"growth": growth}
    )
    charged = run(made, sizes)
    ratio = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    total = Fraction(0)
    for event in charged:
        if isinstance(event, Gaussian):
            assert event.query is Query.CLIPPED_SUM
            total += Fraction(ratio) ** 2 / (2 * Fraction(event.noise_multiplier) ** 2)
        else:
            assert isinstance(event, BoundedRange)
            total += (ratio * Fraction(event.epsilon)) ** 2 / 8
    limit = Fraction(made.filter.limits[0])
    assert total <= limit
    assert len(charged) >= 2
    assert [type(event) for event in charged[:2]] == [Gaussian, BoundedRange]
    used = independent.excess(made.model_dump(mode="json")["filter"], to_json(Compose(tuple(charged))))
    assert float(total / limit) <= used <= 1 + 1e-9
    assert used == pytest.approx(float(total / limit), rel=1e-9)
    spent = start(made.filter)
    for event in charged:
        spent = propose(made.filter, spent, event).spent
    assert spent == made.filter.cost(Compose(tuple(charged)))  # however grouped, the same bits


def test_the_verifier_would_notice_choices_that_it_did_not_count() -> None:
    """What a certificate with choices would be worth if these were left out: half of the budget is missing."""
    made = plan()
    charged = run(made, [1.0])
    body = made.model_dump(mode="json")["filter"]
    gradients = tuple(event for event in charged if isinstance(event, Gaussian))
    whole = independent.excess(body, to_json(Compose(tuple(charged))))
    assert independent.excess(body, to_json(Compose(gradients))) == pytest.approx(whole / 2, rel=1e-6)
    for kind in ("gdp", "rdp-order"):
        other = {**body, "filter": kind, "mu_squared": 1.0}
        with pytest.raises(InputError):
            independent.excess(other, to_json(Compose(tuple(charged))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling": PoissonSampling(rate=0.5)}, "needs sampling 'none', not 'poisson': .* not proved here"),
        ({"filter_kind": "gdp"}, "needs a filter of kind 'zcdp', not 'gdp'|Selection, has no exact mu"),
        ({"filter_kind": "rdp-curve"}, "needs a filter of kind 'zcdp', not 'rdp-curve'"),
        ({"clip_norm": [(1.0, 5), (2.0, 15)]}, "scheduled clipping changes on the way"),
        (
            {
                "clip_norm": None,
                "clipping": AdaptiveClipping(initial=1.0, bit_multiplier=100.0, quantile=0.5),
            },
            "adaptive clipping changes on the way",
        ),
        ({"counts": Counts(noise=100.0)}, "nothing else is bought beside a line search"),
        ({"odometer": "renyi"}, "an odometer does not read the choices"),
        ({"every": 2.0}, "chooses after every step"),
        ({"most_steps": 1}, "must be at least 2"),
    ],
)
def test_what_is_not_proved_or_not_possible_is_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "sampling": NoSampling(),
        "epsilon": 2.0,
        "delta": 1e-5,
        "population": 100,
        "clip_norm": 1.0,
        "policy": LineSearch(bound=1.0, epsilon=0.05),
        "noise_multiplier": 50.0,
        "most_steps": 20,
    }
    AdaptivePlan.make(**given)
    with pytest.raises(InputError, match=message):
        AdaptivePlan.make(**(given | change))


def test_settings_are_checked() -> None:
    for bad in ({"bound": math.nan}, {"bound": -1.0}, {"splits": 0}, {"choices": 1.0}, {"search": {"growth": 0}}):
        with pytest.raises((InputError, ValueError)):
            plan(**bad)
    with pytest.raises(InputError, match="fields of LineSearch only"):
        plan(search={"kind": "constant"})
    assert AdaptivePlan.model_validate(plan().model_dump(mode="json")) == plan()
    chosen = plan().line_search
    assert chosen is not None
    assert plan(search={"candidates": 5}).line_search == chosen.model_copy(update={"candidates": 5})
    assert AdaptivePlan.make(
        NoSampling(), epsilon=1.0, delta=1e-5, population=9, policy=Constant(), noise_multiplier=9.0, most_steps=9,
        clip_norm=1.0,
    ).line_search is None  # fmt: skip
