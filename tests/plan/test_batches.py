"""Expected batches that change over the steps: rates, epochs, prices, draws and divisors."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.dp_event import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from handed_over import steps_seen
from hypothesis import given
from hypothesis import strategies as st
from problems import tiny_training

from discreet.accounting import schedules
from discreet.accounting.schedules import parse
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian, Poisson, flatten
from discreet.plan import Metric, NoSampling, Plan
from discreet.plan.batches import noise_phases, overlaid, rate_phases

BASE: dict[str, Any] = {"population": 1000, "batch": 50, "clip_norm": 1.0, "delta": 1e-5}


def places(event: Event) -> list[Event]:
    return [part for part, count in flatten(event) for _ in range(count)]


def test_the_price_is_that_of_another_library() -> None:
    """dp-accounting 0.6: two rates and two multipliers, overlapping, composed as one."""
    plan = Plan.poisson(**BASE, steps=50, batches=[(50, 20), (200, 30)], noise_multiplier=[(1.5, 35), (3.0, 15)])
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    phases = [(0.05, 1.5, 20), (0.2, 1.5, 15), (0.2, 3.0, 15)]
    assert [(e.rate, e.event.noise_multiplier) for e in places(plan.event())] == [  # type: ignore[union-attr]
        (q, s) for q, s, n in phases for _ in range(n)
    ]
    accountant.compose(
        ComposedDpEvent([SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(s)), n) for q, s, n in phases])
    )
    found = plan.guarantee()
    assert found.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)
    assert plan.sampling.rate == 0.05  # type: ignore[union-attr]
    assert plan.epochs == pytest.approx(20 * 0.05 + 30 * 0.2)
    calibrated = plan.calibrate(1.0)
    assert 0.998 < calibrated.guarantee().epsilon <= 1.0
    assert calibrated.rates == plan.rates


phase_lists = st.lists(st.tuples(st.floats(0.5, 4), st.integers(1, 9)), min_size=1, max_size=5)


@given(noise=phase_lists, data=st.data())
def test_overlaid_phases_are_those_of_every_step(noise: list[tuple[float, int]], data: st.DataObject) -> None:
    steps = sum(count for _, count in noise)
    cuts = sorted(data.draw(st.sets(st.integers(1, steps - 1), max_size=3))) if steps > 1 else []
    rates = [
        (0.1 * (i + 1), end - begin) for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, steps], strict=True))
    ]
    wanted = list(zip([s for s, n in noise for _ in range(n)], [q for q, n in rates for _ in range(n)], strict=True))
    assert [(s, q) for s, q, n in overlaid(noise, rates) for _ in range(n)] == wanted


@given(rate=st.integers(1, 64), steps=st.integers(1, 300), every=st.integers(1, 3))
def test_epochs_of_equal_length_are_those_of_the_schedule(rate: int, steps: int, every: int) -> None:
    schedule = parse(f"exponential:initial=10,rate=0.01,every={every}")
    assert noise_phases(schedule, [(rate / 64, steps)]) == schedule.phases(steps, rate / 64)


def test_a_schedule_of_a_plan_has_no_more_multipliers_than_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MOST_MULTIPLIERS", 50)
    for text in ("exponential:initial=10,rate=0.01", "exponential:initial=10,rate=0.01,per=step"):
        assert len(Plan.poisson(**BASE | {"batch": 1000}, steps=50, noise_multiplier=parse(text)).noise) == 50
        with pytest.raises(InputError, match="a schedule has at most 50 different multipliers"):
            Plan.poisson(**BASE | {"batch": 1000}, steps=51, noise_multiplier=parse(text))
    growing = parse("linear:initial=10,end=900,period=500,per=step")
    assert len(rate_phases(growing, 1000, 50)) == 50
    with pytest.raises(InputError, match="a schedule has at most 50 different multipliers"):
        rate_phases(growing, 1000, 51)


def test_a_plan_of_many_multipliers_is_ordered_in_time_that_grows_as_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a plan are added up a few times, and not once for each multiplier."""
    asked, steps = [], Plan.steps
    monkeypatch.setattr(Plan, "steps", property(lambda plan: asked.append(plan) or steps.fget(plan)))
    metric = Metric(noise=5.0, every=100)
    Plan.poisson(
        **BASE, steps=1000, noise_multiplier=parse("exponential:initial=9,rate=1e-4,per=step"), metrics=[metric]
    )
    assert 0 < len(asked) < 20


@given(rates=st.lists(st.tuples(st.integers(1, 32), st.integers(1, 60)), min_size=1, max_size=5))
def test_a_step_is_in_the_epoch_that_the_rates_before_it_add_up_to(rates: list[tuple[int, int]]) -> None:
    """Slowly, in rational arithmetic: step i is in epoch floor(sum of the rates before it)."""
    phases = [(q / 32, n) for q, n in rates]
    found = noise_phases(parse("exponential:initial=100,rate=0.01"), phases)
    noises = [noise for noise, n in found for _ in range(n)]
    drawn = Fraction(0)
    for (rate, n), begin in zip(phases, [sum(n for _, n in phases[:i]) for i in range(len(phases))], strict=True):
        for i in range(n):
            assert noises[begin + i] == 100 * math.exp(-0.01 * math.floor(drawn))
            drawn += Fraction(rate)


@given(first=st.integers(10, 200), last=st.integers(10, 200), period=st.integers(1, 12), steps=st.integers(1, 120))
def test_a_schedule_of_batches_changes_at_epochs(first: int, last: int, period: int, steps: int) -> None:
    """With the same slow count: the batch of a step is that of the epoch it is in."""
    schedule = parse(f"linear:initial={first},end={last},period={period}")
    phases = rate_phases(schedule, 256, steps)
    assert sum(n for _, n in phases) == steps
    drawn = 0.0
    for rate in [q for q, n in phases for _ in range(n)]:
        assert rate == schedule.multiplier(math.floor(drawn * (1 + 1e-9))) / 256
        drawn += rate


def test_batches_by_step() -> None:
    found = rate_phases(parse("piecewise:0=10,5=40,per=step"), 100, 12)
    assert found == [(0.1, 5), (0.4, 7)]


def test_draws_and_divisors_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = steps_seen(monkeypatch)
    plan = Plan.poisson(
        population=24,
        batch=6,
        steps=7,
        clip_norm=1.0,
        delta=1e-5,
        noise_multiplier=2.0,
        batches=[(6, 3), (18, 4)],
        metrics=[Metric(noise=30.0, every=2)],
    )
    trained = tiny_training(tmp_path, plan=plan).run()
    assert [(one.release.event.rate, one.divisor) for one in seen] == [(0.25, 6.0)] * 3 + [(0.75, 18.0)] * 4
    assert trained.charged_steps == 10
    events = places(plan.event())
    assert [event.rate for event in events if isinstance(event, Poisson)] == [0.25] * 3 + [0.75] * 4
    assert events[2] == events[5] == events[8] == Gaussian(30.0, "centred_bit")  # type: ignore[arg-type]
    assert plan.largest_batch == plan.draw_of(events[-1]).largest_batch


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"batches": [(50, 10)]}, "cover 10 steps, but the plan has 20"),
        ({"batches": [(50, 10), (2000, 10)]}, "at most 1"),
        ({"batches": [(50, 10), (-1, 10)]}, "greater than 0"),
        ({"batches": [(50, 10), (math.nan, 10)]}, "expected batch"),
        ({"batches": parse("time:initial=50")}, "rate is missing"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Plan.poisson(**BASE, steps=20, **changes)


def test_only_poisson_batches_change() -> None:
    with pytest.raises(InputError, match="keeps its batches"):
        Plan.make(NoSampling(), population=100, steps=3, clip_norm=1.0, delta=1e-5, batches=[(50, 3)])


def test_a_batch_larger_than_the_population_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="batch must be at most the population, 100, got 200"):
        Plan.poisson(population=100, batch=200, steps=10, delta=1e-3, clip_norm=1.0)
    with pytest.raises(InputError, match="at most the population, 80, got 90"):  # a fifth is held out
        Plan.poisson(population=100, batch=90, steps=10, delta=1e-3, clip_norm=1.0, holdout=0.2)
    with pytest.raises(InputError, match="rounds to zero"):
        Plan.poisson(population=1e300, batch=1e-300, steps=10, delta=1e-3, clip_norm=1.0)


def test_blocks_are_as_long_as_said() -> None:
    settings = {"population": 100, "batch": 20, "steps": 30, "delta": 1e-3, "clip_norm": 1.0}
    assert Plan.poisson(**settings).block == 50
    assert Plan.poisson(**settings, block=7).block == 7
    assert [len(Plan.poisson(**settings, block=7).next_block(start)) for start in (0, 28)] == [7, 2]
    with pytest.raises(InputError, match="block"):
        Plan.poisson(**settings, block=0)
