"""The events of a plan step by step: blocks in a row, prefixes, and steps between metrics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_plans import make

from discreet import BudgetExhausted, Plan
from discreet.accounting import Compose
from discreet.core.events import Event, Gaussian, Poisson, flatten, tally
from discreet.plan import (
    Metric,
)


def unrolled(event: Event) -> list[Event]:
    return [part for part, count in flatten(event) for _ in range(count)]


phase_lists = st.lists(st.tuples(st.floats(0.5, 4), st.integers(1, 9)), min_size=1, max_size=5)


@given(phases=phase_lists, block=st.integers(1, 12), data=st.data())
def test_next_block_is_always_the_next_slice_of_the_events(
    phases: list[tuple[float, int]], block: int, data: st.DataObject
) -> None:
    steps = sum(count for _, count in phases)
    plan = make(noise_multiplier=phases, steps=steps).model_copy(update={"block": block})
    expected: list[Event] = [Poisson(plan.sampling.rate, Gaussian(s)) for s, count in phases for _ in range(count)]
    assert unrolled(plan.event()) == expected
    position = data.draw(st.integers(0, steps - 1))
    assert list(plan.next_block(position)) == expected[position : position + block]
    for beyond in (steps, steps + 1, steps + 10 * block):
        with pytest.raises(BudgetExhausted, match=str(steps)):
            plan.next_block(beyond)


@given(phases=phase_lists, block=st.integers(1, 12))
def test_blocks_in_a_row_are_the_whole_plan(phases: list[tuple[float, int]], block: int) -> None:
    plan = make(noise_multiplier=phases, steps=sum(count for _, count in phases)).model_copy(update={"block": block})
    taken: list[Event] = []
    while len(taken) < plan.steps:
        taken.extend(plan.next_block(len(taken)))
    assert taken == unrolled(plan.event())
    assert tally(Compose(tuple(taken))) == tally(plan.event())


@given(phases=phase_lists, data=st.data())
def test_first_steps_are_a_prefix_and_compose(phases: list[tuple[float, int]], data: st.DataObject) -> None:
    plan = make(noise_multiplier=phases, steps=sum(count for _, count in phases))
    count = data.draw(st.integers(0, plan.steps))
    whole = unrolled(plan.event())
    assert unrolled(plan.first_steps(count)) == whole[:count]
    rest = Compose(tuple(whole[count:]))
    assert tally(Compose((plan.first_steps(count), rest))) == tally(plan.event())


def test_the_schedule_of_the_clip_norm_counts_steps_and_not_the_metrics_between_them() -> None:
    metrics = [Metric(noise=50.0, every=2), Metric(kind="loss", bound=1.0, noise=50.0)]
    plan = Plan.poisson(
        population=100,
        batch=10,
        steps=5,
        clip_norm=[(1.0, 3), (0.5, 2)],
        noise_multiplier=4,
        delta=1e-5,
        metrics=metrics,
    )
    places = [plan.step_at(position) for position in range(plan.charges) if plan.metric_at(position) is None]
    assert places == list(range(5))


def test_a_long_run_has_about_a_thousand_blocks() -> None:
    """So the ledger and the certificate stay small, however many steps there are."""
    for steps, block in ((1, 50), (50_999, 50), (52_000, 52), (10**6, 1000)):
        assert make(steps=steps).block == block
