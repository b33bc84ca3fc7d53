"""Schedules: formulas, phases, what is refused, and rates that are found."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.schedules import (
    GRID,
    MOST_EPOCHS,
    MOST_MULTIPLIERS,
    Schedule,
    epochs_within,
    parse,
    solve_rate,
)
from discreet.core.errors import InputError


def test_formulas() -> None:
    """Yu et al. 2019, section III-C."""
    assert parse("uniform:initial=8").multiplier(99) == 8
    assert parse("time:initial=10,rate=0.05").multiplier(20) == pytest.approx(5)
    assert parse("exponential:initial=10,rate=0.01").multiplier(100) == pytest.approx(10 / math.e)
    step = parse("step:initial=10,rate=0.6,period=10")
    assert [step.multiplier(t) for t in (0, 9, 10, 20)] == pytest.approx([10, 10, 6, 3.6])
    poly = parse("polynomial:initial=10,rate=3,end=2,period=100")
    assert [poly.multiplier(t) for t in (0, 50, 100, 500)] == pytest.approx([10, 3, 2, 2])


def test_piecewise_held_and_floored() -> None:
    pieces = parse("piecewise:0=10,20=7,40=5")
    assert [pieces.multiplier(t) for t in (0, 19, 20, 39, 40, 999)] == [10, 10, 7, 7, 5, 5]
    assert pieces.phases(50, 1.0) == [(10.0, 20), (7.0, 20), (5.0, 10)]
    assert parse("piecewise:0=3,5=4,per=step").phases(8, 0.01) == [(3.0, 5), (4.0, 3)]
    held = parse("exponential:initial=10,rate=0.1,every=5")
    assert [held.multiplier(t) for t in (0, 4, 5, 9, 10)] == pytest.approx(
        [10 * math.exp(-0.1 * t) for t in (0, 0, 5, 5, 10)]
    )
    floored = parse("time:initial=10,rate=1,floor=2.5")
    assert [floored.multiplier(t) for t in (0, 1, 2, 3, 9)] == pytest.approx([10, 5, 10 / 3, 2.5, 2.5])
    assert parse("uniform:initial=8,floor=9").multiplier(3) == 9
    # a floor of 8 never lets an epoch cost more than 1 / 128, and Table II's uniform(8) lasts for 100
    assert epochs_within(parse("exponential:initial=10,rate=0.5,floor=8"), 0.78125) >= 100


@given(st.integers(1, 5000), st.floats(1e-3, 1), st.booleans())
def test_phases_cover_the_steps_each_with_its_epochs_noise(steps: int, rate: float, per_step: bool) -> None:
    schedule = parse("exponential:initial=10,rate=0.001" + (",per=step" if per_step else ""))
    phases = schedule.phases(steps, rate)
    assert sum(count for _, count in phases) == steps
    flat = [noise for noise, count in phases for _ in range(count)]
    for step in {0, steps // 3, steps - 1}:
        epoch = step if per_step else math.floor(step * rate * (1 + 1e-12))
        assert flat[step] in (schedule.multiplier(epoch), schedule.multiplier(max(0, epoch - 1)))
    assert flat == sorted(flat, reverse=True)


def test_an_epoch_is_one_over_the_rate_steps() -> None:
    schedule = parse("step:initial=4,rate=0.5,period=1")
    assert schedule.phases(250, 0.01) == [(4.0, 100), (2.0, 100), (1.0, 50)]
    assert schedule.phases(3, 1.0) == [(4.0, 1), (2.0, 1), (1.0, 1)]
    assert parse("step:initial=4,rate=0.5,period=2").phases(5, 1.0) == [(4.0, 2), (2.0, 2), (1.0, 1)]
    assert parse("step:initial=4,rate=0.5,period=1,per=step").phases(2, 0.01) == [(4.0, 1), (2.0, 1)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sine:initial=1", "unknown schedule 'sine'; known: uniform, time"),
        ("exponential", "needs initial"),
        ("exponential:initial=0", "initial must be finite and greater than 0"),
        ("exponential:initial=nan", "initial must be a number, got NaN"),
        ("exponential:initial=ten", "initial must be a number, got 'ten'"),
        ("exponential:initial=10,rate=-1", "rate must be"),
        ("exponential:initial=10,initial=5", "cannot use 'initial=5'"),
        ("exponential:initial=10,period=5", "cannot use 'period=5'"),
        ("exponential:initial=10,rate", "cannot use 'rate'"),
        ("exponential:initial=10,per=day", "per must be epoch or step"),
        ("step:initial=10,rate=0.5", "needs period"),
        ("step:initial=10,rate=1.5,period=3", "less than 1"),
        ("step:initial=10,rate=0.5,period=2.5", "period must be a whole number"),
        ("polynomial:initial=10,rate=2,end=11,period=5", "end must be"),
        ("piecewise", "the first at 0"),
        ("piecewise:1=10", "the first at 0"),
        ("piecewise:0=10,20=7,10=5", "must rise"),
        ("piecewise:0=10,20=0", "must be finite and greater than 0"),
        ("piecewise:0=10,rate=2", "piecewise takes 0, 20, ..., every, floor, per"),
        ("uniform:initial=10,0=5", "cannot use '0=5'"),
        ("uniform:initial=10,every=1.5", "every must be a whole number"),
        ("uniform:initial=10,floor=-1", "floor must be"),
    ],
)
def test_bad_schedules(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(text)


def test_a_missing_rate_and_a_noise_of_zero_are_named() -> None:
    with pytest.raises(InputError, match="rate is missing"):
        parse("time:initial=10").multiplier(3)
    with pytest.raises(InputError, match="fallen to 0"):
        parse("exponential:initial=10,rate=90").phases(20, 1.0)
    assert parse("exponential:initial=10,rate=90").rho(30) == math.inf


@pytest.mark.parametrize("schedule", ["time:initial=10", "exponential:initial=10", "step:initial=10,period=7"])
@pytest.mark.parametrize("epochs", [1, 15, 77])
def test_a_found_rate_lasts_exactly_as_long_and_is_the_smallest(schedule: str, epochs: int) -> None:
    def fits(candidate: Schedule, count: int) -> bool:
        return candidate.rho(count) <= 0.9

    try:
        found = solve_rate(parse(schedule), fits, epochs)
    except InputError:
        assert epochs == 1  # a first epoch at the initial noise never fills the budget
        return
    assert found.rate is not None
    assert epochs_within(found, 0.9) == epochs
    if round(found.rate / GRID, 6) == round(found.rate / GRID) and found.rate > 2 * GRID:
        below = Schedule(found.kind, found.initial, found.rate - GRID, found.period)
        assert epochs_within(below, 0.9) != epochs


def test_rates_that_do_not_exist() -> None:
    with pytest.raises(InputError, match="lasts for less than 1000 epochs"):
        solve_rate(parse("exponential:initial=10"), lambda s, e: s.rho(e) <= 0.5, 1000)
    with pytest.raises(InputError, match="lasts for more than 10 epochs"):
        solve_rate(parse("polynomial:initial=10,end=9,period=100"), lambda s, e: s.rho(e) <= 0.5, 10)
    with pytest.raises(InputError, match="no rate to find"):
        solve_rate(parse("uniform:initial=10"), lambda s, e: s.rho(e) <= 0.5, 10)


def test_a_schedule_has_a_public_number_of_multipliers() -> None:
    falling = parse("exponential:initial=10,rate=0.000001")
    assert len(falling.phases(MOST_MULTIPLIERS, 1.0)) == MOST_MULTIPLIERS
    with pytest.raises(InputError, match="at most 100,000 different multipliers"):
        falling.phases(MOST_MULTIPLIERS + 1, 1.0)
    with pytest.raises(InputError, match="in 1,000,000 epochs"):
        parse("linear:initial=10,end=2,period=5").phases(MOST_EPOCHS + 1, 1.0)
