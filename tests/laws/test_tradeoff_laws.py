"""Laws of trade-off functions, over random plans of Gaussians with and without sampling."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import delta_at
from discreet.accounting.account import guarantee
from discreet.accounting.answers.covering_mu import covering_mu
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.core.adjacency import Adjacency
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat, TruncatedPoisson

SLOW = settings(max_examples=8, deadline=None, derandomize=True)
SHARES = np.array([0.0, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99, 1.0])
EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
WIDTH = 2e-3

noises = st.floats(math.log(0.6), math.log(20)).map(math.exp)
rates = st.one_of(st.just(1.0), st.floats(math.log(1e-3), 0).map(math.exp))
parts = st.tuples(rates, noises, st.integers(1, 200))


def event(rate: float, noise: float, steps: int) -> Event:
    return Repeat(Poisson(rate, Gaussian(noise)), steps)


@SLOW
@given(parts)
def test_bounds_bracket_and_are_trade_off_functions(part: tuple[float, float, int]) -> None:
    curve = trade_off(event(*part))
    low, high = curve.lower(SHARES), curve.upper(SHARES)
    assert np.all((low >= 0) & (low <= high) & (high <= 1 - SHARES))
    assert np.max(high - low) <= WIDTH
    assert np.all(np.diff(low) <= 0)
    assert np.all(curve.delta_lower(EPSILONS) <= curve.delta(EPSILONS))
    dense = np.linspace(0, 1, 2001)
    assert curve.advantage == pytest.approx(float(np.max(curve.power(dense) - dense)), abs=1e-3)


@SLOW
@given(parts, st.floats(1.05, 2))
def test_more_noise_fewer_steps_and_smaller_rates_are_more_private(
    part: tuple[float, float, int], factor: float
) -> None:
    rate, noise, steps = part
    here = trade_off(event(rate, noise, steps)).lower(SHARES)
    fewer = max(1, int(steps / factor))
    for other in ((rate, noise * factor, steps), (rate, noise, fewer), (rate / factor, noise, steps)):
        assert np.all(trade_off(event(*other)).upper(SHARES) >= here)


@SLOW
@given(parts, parts)
def test_however_a_plan_is_written(one: tuple[float, float, int], other: tuple[float, float, int]) -> None:
    here, there = event(*one), event(*other)
    first = trade_off(Compose((here, there)))
    second = trade_off(Compose((there, Compose((here, Compose(()))))))
    assert first.lower(SHARES) == pytest.approx(second.lower(SHARES), abs=WIDTH)
    assert np.all(first.lower(SHARES) <= second.upper(SHARES))
    assert np.all(first.lower(SHARES) <= trade_off(here).upper(SHARES))


@SLOW
@given(parts, st.integers(1, 4))
def test_the_accountant_the_curve_and_its_summary_agree(part: tuple[float, float, int], size: int) -> None:
    plan = event(*part)
    curve, proved = trade_off(plan), guarantee(plan, 1e-5)
    assert proved.lower is not None
    assert curve.epsilon(1e-5) >= proved.lower * (1 - 1e-9)
    mu = covering_mu(curve, 1e-6)
    assert mu <= covering_mu(trade_off(Repeat(Gaussian(part[1]), part[2])), 0) * 1.01  # no sampling is the worst case
    assert np.all(curve.group(size).lower(SHARES) <= curve.lower(SHARES) + 1e-6)


@settings(SLOW, max_examples=6)
@given(
    st.tuples(st.floats(0.02, 1), noises, st.integers(1, 60)),
    st.integers(3, 300),
    st.floats(-0.5, 5),
    st.floats(math.log(1e-8), math.log(1e-2)).map(math.exp),
    st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT]),
)
def test_truncated_batches_lie_between_poisson_batches_and_their_epsilon(
    part: tuple[float, float, int], population: int, room: float, delta: float, adjacency: Adjacency
) -> None:
    """An attack on Poisson batches is one on truncated ones; delta at the epsilon of a delta is that delta, to 2 %."""
    rate, noise, steps = part
    capacity = max(1, round(rate * population + room * math.sqrt(rate * population)))
    plan = Repeat(TruncatedPoisson(rate, capacity, population, Gaussian(noise)), steps)
    proved, open_ended = guarantee(plan, delta, adjacency), trade_off(event(*part), adjacency)
    curve = trade_off(plan, adjacency, delta)
    assert np.all(curve.lower(SHARES) <= open_ended.upper(SHARES))
    assert np.all(curve.lower(SHARES) <= curve.upper(SHARES))
    assert np.all(curve.delta(EPSILONS) >= open_ended.delta_lower(EPSILONS))
    assert np.all(np.diff(curve.delta(EPSILONS)) <= 0)
    found, more = (delta_at(plan, epsilon, adjacency) for epsilon in (proved.epsilon, proved.epsilon + 0.3))
    assert more.delta <= found.delta <= 1.02 * delta
    assert found.lower is not None
    assert found.lower <= found.delta
    assert found.delta >= open_ended.delta_lower(np.array([proved.epsilon]))[0]


@SLOW
@given(noises, st.integers(1, 50))
def test_replacing_is_a_group_of_two_without_sampling(noise: float, steps: int) -> None:
    plan = Repeat(Gaussian(noise), steps)
    replaced = trade_off(plan, Adjacency.REPLACE_ONE)
    assert replaced.lower(SHARES) == pytest.approx(trade_off(plan).group(2).lower(SHARES), abs=1e-9)
