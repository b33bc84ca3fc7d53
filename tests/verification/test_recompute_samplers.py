"""The independent accountant on samplers beyond Poisson: against the library's, published figures and mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import pytest

from discreet.accounting.account import guarantee
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import (
    Allocation,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Poisson,
    Repeat,
    TruncatedPoisson,
)
from discreet.core.events.event_json import to_json
from discreet.core.rounding import CONFIRMABLE
from discreet.verification.recompute import decide, epsilon_bounds, poisson_loss
from discreet.verification.recompute.events import Part, _overflow

ADD_REMOVE, ZERO_OUT, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (Repeat(FixedSize(60000, 600, Gaussian(1.8)), 1800), REPLACE_ONE),
        (Repeat(FixedSize(10, 5, Compose((Gaussian(20.0), Gaussian(9.0)))), 100), REPLACE_ONE),
        (Compose((Repeat(FixedSize(600, 60, Gaussian(3.0)), 50), Gaussian(9.0))), REPLACE_ONE),
        (Compose((Repeat(FixedSize(600, 60, Gaussian(3.0)), 5), Epoch(Repeat(Gaussian(9.0), 3)))), REPLACE_ONE),
        (FixedSize(7, 7, Gaussian(3.0)), ZERO_OUT),
        (Repeat(TruncatedPoisson(0.01, 800, 60000, Gaussian(0.9)), 1800), ADD_REMOVE),
        (Repeat(TruncatedPoisson(0.01, 765, 60000, Gaussian(0.9)), 1800), ZERO_OUT),
        (Repeat(Epoch(Compose((Repeat(Gaussian(6.0), 50), Gaussian(7.0)))), 400), ZERO_OUT),
        (Compose((Epoch(Repeat(Compose((Gaussian(2.0), Gaussian(3.0))), 9)), Poisson(0.1, Gaussian(1.0)))), ZERO_OUT),
        (Repeat(Allocation(10, 4, Gaussian(6.0)), 4), REPLACE_ONE),
        (Compose((Allocation(10, 10, Gaussian(6.0)), Allocation(3, 1, Gaussian(5.0)))), ADD_REMOVE),
        (Repeat(Individual(200, 50, Gaussian(20.0)), 2), REPLACE_ONE),
        (Compose((Individual(9, 1, Gaussian(2.0)), Poisson(0.1, Gaussian(1.0)))), ADD_REMOVE),
        (Compose((Individual(9, 9, Gaussian(6.0)), Epoch(Repeat(Gaussian(5.0), 3)))), ZERO_OUT),
    ],
)
def test_two_accountants_agree(event: Event, adjacency: Adjacency) -> None:
    """They share no code; each one's upper bound is above the other's lower one, and the claim is accepted."""
    ours, events = guarantee(event, 1e-5, adjacency), to_json(event)
    theirs = epsilon_bounds(events, 1e-5, adjacency.value, tolerance=2e-3)
    assert theirs.upper == pytest.approx(ours.epsilon, rel=2e-3)
    assert theirs.lower <= ours.epsilon
    assert ours.lower is not None
    assert ours.lower <= theirs.upper
    claimed = ours.epsilon * (1 + 5e-4)  # what a plan claims, for another accountant to confirm
    assert decide(events, 1e-5, adjacency.value, claimed).accepted
    assert not decide(events, 1e-5, adjacency.value, 0.98 * ours.epsilon, finest=1).accepted


def test_the_figure_of_fixed_size_batches() -> None:
    """Symmetrised before composing 3.760; one-sided 3.0636, which is what is known from below."""
    event = to_json(Repeat(FixedSize(60000, 600, Gaussian(1.8)), 1800))
    found = epsilon_bounds(event, 1e-5, "replace_one", tolerance=1e-3)
    assert found.upper == pytest.approx(3.760, abs=1e-3)
    assert found.lower == pytest.approx(3.0636, abs=1e-3)
    assert not decide(event, 1e-5, "replace_one", 3.1).accepted  # a one-sided claim


@pytest.mark.parametrize(
    ("population", "batch", "steps", "noise", "delta"),
    [(50_000, 256, 50_000, 1.0, 1e-5), (50_000, 500, 30_000, 1.0, 1e-6), (2869, 1607, 75_655, 113.340298, 4.8e-11)],
)
def test_an_honest_claim_of_many_steps_of_fixed_size_is_accepted(
    population: int, batch: int, steps: int, noise: float, delta: float
) -> None:
    event = Repeat(FixedSize(population, batch, Gaussian(noise)), steps)
    honest = guarantee(event, delta, "replace_one").epsilon * CONFIRMABLE
    assert decide(to_json(event), delta, "replace_one", honest).accepted
    assert not decide(to_json(event), delta, "replace_one", 0.99 * honest, finest=1).accepted


@pytest.mark.parametrize(("rate", "mu"), [(0.01, 1.1), (0.3, 2.5), (0.5, 0.3), (1.0, 0.7)])
def test_the_symmetrised_loss_dominates_its_profile(rate: float, mu: float) -> None:
    """At 30 digits: the profile is removal's for epsilon >= 0, and delta(-e) = 1 - exp(-e) + exp(-e) delta(e)."""
    h = mu * mu / 40
    loss = poisson_loss.above_symmetric(Part(rate, mu, 1), h, 9.0)
    assert float(loss.mass.sum()) + loss.infinite == pytest.approx(1.0, abs=1e-9)
    with mpmath.workdps(30):

        def profile(epsilon: Any) -> Any:
            if epsilon < 0:
                return 1 - mpmath.exp(epsilon) + mpmath.exp(epsilon) * profile(-epsilon)
            z = mpmath.log((mpmath.exp(epsilon) - 1 + rate) / mpmath.mpf(rate)) / mu + mpmath.mpf(mu) / 2
            null, moved = mpmath.ncdf(-z), mpmath.ncdf(mu - z)
            return (1 - rate) * null + rate * moved - mpmath.exp(epsilon) * null

        for epsilon in (-0.5, -0.1, -h, 0.0, h / 3, 0.2, 0.7):
            points = [(float(m), (loss.first + i) * h) for i, m in enumerate(loss.mass)]
            found = mpmath.fsum(m * -mpmath.expm1(epsilon - t) for m, t in points if t > epsilon) + loss.infinite
            assert profile(mpmath.mpf(epsilon) + loss.slip) <= found <= profile(mpmath.mpf(epsilon)) + 0.05 * h


@pytest.mark.parametrize(
    ("population", "rate", "capacity"),
    [(60000, 0.01, 700), (60000, 0.01, 900), (10**7, 0.001, 10_500), (100, 0.5, 98), (100, 0.5, 99), (50, 0.02, 3)],
)
def test_overflow_is_an_upper_bound(population: int, rate: float, capacity: int) -> None:
    with mpmath.workdps(50):
        q, tail = mpmath.mpf(rate), mpmath.mpf(0)
        for size in range(capacity + 1, min(population, capacity + 1200) + 1):
            tail += mpmath.binomial(population, size) * q**size * (1 - q) ** (population - size)
        found = _overflow(rate, {"population": population, "capacity": capacity})
        assert tail <= found <= 2.5 * tail
    assert _overflow(rate, {"population": population, "capacity": population}) == 0.0
    assert _overflow(rate, {"population": population, "capacity": int(population * rate) - 1 or 1}) >= 0.2


def test_truncation_that_costs_more_than_delta_is_priced_as_a_replacement() -> None:
    """By a route of its own; the library's price is the upper end of half a percent."""
    event = Repeat(TruncatedPoisson(0.01, 620, 60000, Gaussian(0.9)), 1800)
    found = epsilon_bounds(to_json(event), 1e-5, "add_remove", tolerance=1e-3)
    claimed = guarantee(event, 1e-5)
    assert found.lower < 0.8 * found.upper
    assert 0.99 * claimed.epsilon <= found.upper <= claimed.epsilon * 1.001


@pytest.mark.parametrize(
    ("event", "adjacency", "says"),
    [
        (FixedSize(100, 10, Gaussian(1.0)), "add_remove", "fixed_size.*under add_remove"),
        (FixedSize(100, 10, Gaussian(1.0)), "zero_out", "fixed_size.*under zero_out"),
        (FixedSize(10, 10, Gaussian(1.0)), "add_remove", "fixed_size.*under add_remove"),
        (Epoch(Repeat(Gaussian(1.0), 10)), "add_remove", "epoch.*under add_remove"),
        (TruncatedPoisson(0.1, 9, 10, Gaussian(1.0)), "replace_one", "truncated_poisson.*under replace_one"),
        (Epoch(Poisson(0.1, Gaussian(1.0))), "zero_out", "'poisson' inside 'epoch'"),
        (Allocation(9, 1, Epoch(Gaussian(1.0))), "zero_out", "'epoch' inside 'allocation'"),
    ],
)
def test_what_has_no_theorem_is_refused_by_name(event: Event, adjacency: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        epsilon_bounds(to_json(event), 1e-5, adjacency, tolerance=1e-2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch": 0}, "whole number"),
        ({"batch": 101}, "101 in 100"),
        ({"batch": 1.5}, "whole number"),
        ({"population": True}, "whole number"),
        ({"extra": 1}, "exactly the fields"),
    ],
)
def test_bad_fields_are_refused(change: dict[str, object], says: str) -> None:
    event = to_json(FixedSize(100, 10, Gaussian(1.0))) | change
    with pytest.raises(InputError, match=says):
        epsilon_bounds(event, 1e-5, "replace_one", tolerance=1e-2)
