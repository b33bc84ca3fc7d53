"""The error of correlated noise beside matrices written out; coefficients; the choice of bands; the event's price."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from discreet.accounting import guarantee, trade_off
from discreet.accounting.answers.bands import best_bands, best_coefficients, choices, error
from discreet.core.adjacency import Adjacency
from discreet.core.errors import NotProved
from discreet.core.events import Allocation, Compose, CyclicPoisson, Event, Gaussian, Poisson, Repeat
from discreet.verification.recompute import decide
from discreet.verification.standalone import verify

columns = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=7).map(lambda found: sorted(found, reverse=True))


def written_out(column: list[float], steps: int) -> float:
    """|c| |A C^-1| / sqrt(T), Frobenius, from dense matrices (arXiv:2306.08153, section 2)."""
    full = np.zeros(steps)
    full[: min(len(column), steps)] = column[:steps]
    strategy = toeplitz(full, np.zeros(steps))
    sums = np.tril(np.ones((steps, steps)))
    return float(np.linalg.norm(column) * np.linalg.norm(sums @ np.linalg.inv(strategy)) / math.sqrt(steps))


@given(column=columns, steps=st.integers(7, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_error_is_that_of_the_matrices(column: list[float], steps: int) -> None:
    assert error(column, steps) == pytest.approx(written_out(column, steps), rel=1e-8)


@pytest.mark.parametrize("bands", [2, 4, 8, 20])
@pytest.mark.parametrize("steps", [40, 1000])
def test_no_neighbouring_coefficients_are_better(bands: int, steps: int) -> None:
    """Nor those of the root of the matrix of sums (Fichtenberger, Henzinger and Upadhyay 2023), cut off."""
    best = best_coefficients(bands, steps)
    assert len(best) == bands
    assert list(best) == sorted(best, reverse=True)
    least = error(best, steps)
    root = np.cumprod([1.0, *(1 - 0.5 / k for k in range(1, bands))])
    assert least <= error(root, steps)
    for place, by in itertools.product(range(1, bands), (-3, 3)):
        other = list(best)
        other[place] += by
        assert least <= error(other, steps) * 1.001


def test_figures_of_other_people() -> None:
    """Noise in prefix sums of 100 steps with all bands, over independent noise without sampling: the square root of
    the matrix of sums has |C| |A C^-1| with the closed forms of Fichtenberger et al. 2023: sum of squares of
    binomial(2k, k) / 4^k for |c|, and of the same numbers, cumulated over rows, for A C^-1 = C."""
    squares = np.cumprod([1.0, *(1 - 0.5 / k for k in range(1, 100))]) ** 2
    closed = math.sqrt(squares.sum() * np.cumsum(squares).mean())
    assert error(np.sqrt(squares), 100) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize(("rate", "steps"), [(0.01, 100), (0.01, 1000), (0.25, 80)])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_best_number_of_bands_is_never_worse_than_independent_noise(
    rate: float, steps: int, epsilon: float
) -> None:
    found = choices(rate, steps, epsilon, 1e-5)
    best = best_bands(rate, steps, epsilon, 1e-5)
    assert found[0].coefficients == (1,)
    assert found[0].gain == 1.0
    assert best.gain == min(one.gain for one in found) <= 1.0
    for one in found:
        bands = len(one.coefficients)
        assert steps % bands == 0
        assert bands * rate <= 1 + 1e-9
        event = Repeat(CyclicPoisson(bands, bands * rate, Gaussian(one.noise_multiplier)), steps // bands)
        assert guarantee(event, 1e-5).epsilon <= epsilon


def test_more_budget_takes_more_bands_and_gains_more() -> None:
    found = [best_bands(0.01, 1000, epsilon, 1e-5) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)]
    gains, bands = [one.gain for one in found], [len(one.coefficients) for one in found]
    assert gains == sorted(gains, reverse=True)
    assert bands == sorted(bands)
    assert gains[-1] < 0.6


def test_a_round_costs_what_a_poisson_step_of_a_turn_does() -> None:
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT):
        round_of = guarantee(Repeat(CyclicPoisson(8, 0.08, Gaussian(1.0)), 50), 1e-5, adjacency)
        assert round_of.epsilon == guarantee(Repeat(Poisson(0.08, Gaussian(1.0)), 50), 1e-5, adjacency).epsilon
    with pytest.raises(NotProved, match="replace_one"):
        guarantee(CyclicPoisson(8, 0.08, Gaussian(1.0)), 1e-5, Adjacency.REPLACE_ONE)


def test_no_lower_bound_is_claimed_as_parts_are_secret() -> None:
    """With coefficients (1, 0, 0, ...), in the limit, a round is random allocation, which costs far less: its own upper
    bound is below that of the Poisson step by which a round is bounded."""
    found = guarantee(CyclicPoisson(64, 1.0, Gaussian(1.0)), 1e-5)
    allocated = guarantee(Allocation(64, 1, Gaussian(1.0)), 1e-5)
    assert found.lower is not None
    assert found.lower <= allocated.epsilon < found.epsilon / 4
    beside = guarantee(Compose((CyclicPoisson(64, 0.5, Gaussian(1.0)), Poisson(0.1, Gaussian(1.0)))), 1e-5)
    alone = guarantee(Poisson(0.1, Gaussian(1.0)), 1e-5)
    assert alone.lower is not None
    assert beside.lower == pytest.approx(alone.lower, rel=1e-3)
    curve = trade_off(CyclicPoisson(64, 0.5, Gaussian(1.0)))
    assert curve.upper(0.1) == pytest.approx(0.9)  # no test is known but to guess


def simulated(rate: float, mu: float, rounds: int, seed: int) -> float:
    """The delta at epsilon 1 of a chain of three bands that adapts: gradients turn with the last release. 200,000 runs;
    the densities are those of the releases themselves, in the order of the steps."""
    draw = np.random.default_rng(seed)
    runs, weights = 200_000, np.array([2.0, 1.0, 1.0]) / math.sqrt(6)
    takes = draw.random((runs, rounds)) < rate
    loss = np.zeros(runs)
    last = np.zeros((runs, 2))
    for turn in range(rounds):
        size = np.linalg.norm(last, axis=1, keepdims=True)
        way = np.where(size > 0, np.stack([-last[:, 1], last[:, 0]], 1) / np.where(size > 0, size, 1), [[1.0, 0.0]])
        at_least_one = np.zeros(runs)  # ln of the density with the unit's part over that without, for the round
        for weight in weights:
            shift = mu * weight * way
            release = takes[:, turn : turn + 1] * shift + draw.normal(size=(runs, 2))
            at_least_one += np.sum(release * shift, 1) - np.sum(shift * shift, 1) / 2
            last = release
        loss += np.logaddexp(math.log1p(-rate), math.log(rate) + at_least_one)
    return float(np.mean(np.maximum(-np.expm1(1.0 - loss), 0.0)))


def test_the_price_of_rounds_by_simulation() -> None:
    """Six standard errors are 1e-8 of false alarm for a fresh seed. Two rounds at rate 0.3 and noise 1."""
    found = simulated(0.3, 1.0, 2, 7)
    event = Repeat(CyclicPoisson(3, 0.3, Gaussian(1.0)), 2)
    low, high = 1e-4, 0.9
    for _ in range(40):  # the delta at which epsilon is 1
        middle = math.sqrt(low * high)
        low, high = (middle, high) if guarantee(event, middle).epsilon > 1 else (low, middle)
    assert found == pytest.approx(high, abs=6 * math.sqrt(high / 200_000))
    assert found < simulated(0.36, 1.0, 2, 7) - 6 * math.sqrt(high / 200_000)


def random_plans(count: int, seed: int) -> list[tuple[int, float, float, int, float]]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        parts, rate = int(generator.integers(1, 65)), float(np.exp(generator.uniform(math.log(1e-3), 0)))
        noise, rounds = float(np.exp(generator.uniform(math.log(0.6), math.log(6)))), int(generator.integers(1, 500))
        found.append((parts, rate, noise, rounds, float(10 ** generator.uniform(-9, -3))))
    return found


def agree(parts: int, rate: float, noise: float, rounds: int, delta: float) -> None:
    """Both verifiers accept the library's claim, and neither accepts 2 % less."""
    event: Event = Repeat(CyclicPoisson(parts, rate, Gaussian(noise)), rounds)
    inner = {"event": "gaussian", "noise_multiplier": noise, "query": "clipped_sum"}
    one = {"event": "cyclic_poisson", "parts": parts, "rate": rate, "of": inner}
    fields = {"event": "repeat", "count": rounds, "of": one}
    claim, turns = guarantee(event, delta), guarantee(Repeat(Poisson(rate, Gaussian(noise)), rounds), delta)
    assert turns.lower is not None
    claimed = claim.epsilon * (1 + 5e-4)
    assert decide(fields, delta, "add_remove", claimed).accepted
    found = verify.epsilon_of(verify.multiset(fields), delta, "add_remove", max(claimed, 1e-4) / 20000)
    assert turns.lower <= found <= claimed
    assert not decide(fields, delta, "add_remove", 0.98 * turns.lower, finest=0).accepted


@pytest.mark.parametrize("plan", random_plans(6, 1), ids=str)
def test_both_verifiers_agree(plan: tuple[int, float, float, int, float]) -> None:
    agree(*plan)


@pytest.mark.parametrize("plan", random_plans(200, 2), ids=str)
def test_both_verifiers_agree_on_two_hundred_plans_of_turns(plan: tuple[int, float, float, int, float]) -> None:
    agree(*plan)
