"""The privacy loss of random allocation: closed forms, integration, simulation, published intervals, both verifiers."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import ndtr

from discreet.accounting import guarantee
from discreet.accounting.pld import lognormal_sum
from discreet.accounting.pld.allocation_loss import AllocationLoss
from discreet.accounting.pld.discretise import LossPmf
from discreet.accounting.pld.lognormal_sum import Rule, Side, summed
from discreet.accounting.pld.poisson_pair import Direction
from discreet.core.adjacency import Adjacency
from discreet.core.events import Allocation, Compose, Event, Gaussian, Poisson, Repeat
from discreet.verification.recompute import decide, epsilon_bounds
from discreet.verification.standalone import verify

FALSE_ALARM = 1e-8
"""Of each simulation, were the seed not fixed: six standard errors."""


def loss(steps: int, noise: float, direction: Direction, tail: float = 1e-14) -> AllocationLoss:
    return AllocationLoss(steps, noise, 1, direction, tail)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_much_noise_takes_no_more_memory_than_little(count: int) -> None:
    """A sum is about log(count) above its terms, in many steps of a fine grid: none of these are kept."""
    noise = 1e6
    tracemalloc.start()
    found = summed(noise, count, 0.1 / noise, Rule(Direction.REMOVAL, Side.ABOVE, 1e-14))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20
    assert float(found.masses @ np.exp(found.logs)) + found.infinite == pytest.approx(count, rel=1e-9)


def delta_of(pmf: LossPmf, epsilon: float) -> float:
    above = np.maximum(-np.expm1(np.minimum(epsilon - pmf.losses, 0.0)), 0.0)
    return float(pmf.masses @ above) + float(pmf.infinity)


def bounds(steps: int, noise: float, direction: Direction, epsilon: float, grid: float = 4e-3) -> tuple[float, float]:
    """Lower and upper bound on the delta of one period."""
    found = loss(steps, noise, direction)
    return delta_of(found.optimistic(grid), epsilon), delta_of(found.pessimistic(grid), epsilon)


def gaussian_delta(noise: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8."""
    mu = 1 / noise
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_one_step_is_the_gaussian_mechanism(noise: float, direction: Direction) -> None:
    for epsilon in (0.0, 0.5 / noise, 2 / noise):
        low, high = bounds(1, noise, direction, epsilon, 2e-3)
        exact = gaussian_delta(noise, epsilon)
        assert low <= exact <= high
        assert high - low <= 0.01 * exact


def of_two(noise: float, direction: Direction, epsilon: float) -> float:
    """The delta of one of two steps by integration: given one ratio, the mean over the other has a closed form, that of
    an option on a lognormal price (Black and Scholes 1973)."""
    mu = 1 / noise

    def above(strike: float) -> float:
        """E (R - strike)+"""
        if strike <= 0:
            return 1 - strike
        at = -math.log(strike) / mu
        return float(ndtr(at + mu / 2) - strike * ndtr(at - mu / 2))

    def integrand(z: float) -> float:
        first, c = math.exp(mu * z - mu * mu / 2), math.exp(epsilon)
        if direction is Direction.REMOVAL:
            value = above(2 * c - first) / 2
        else:
            strike = 2 / c - first  # (1 - c (first + R) / 2)+ = c / 2 (strike - R)+, and put = call - 1 + strike
            value = c / 2 * (above(strike) - 1 + strike)
        return value * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    kink = (math.log(2) + (epsilon if direction is Direction.REMOVAL else -epsilon)) / mu + mu / 2
    parts = [-14.0, *([kink] if abs(kink) < 14 else []), 14.0 + mu]
    return sum(integrate.quad(integrand, a, b, epsabs=1e-15, limit=200)[0] for a, b in itertools.pairwise(parts))


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_one_of_two_steps_by_integration(noise: float, direction: Direction, epsilon: float) -> None:
    exact = of_two(noise, direction, epsilon)
    low, high = bounds(2, noise, direction, epsilon, 2e-3)
    assert low <= exact * (1 + 1e-9) + 1e-13
    assert exact <= high * (1 + 1e-9) + 1e-13
    assert high - low <= 0.01 * exact + 1e-9


def simulated(steps: int, noise: float, direction: Direction, epsilon: float, seed: int) -> tuple[float, float]:
    """Mean and standard error of delta from exact densities (balls and bins)."""
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(100_000, steps))
    if direction is Direction.REMOVAL:
        z[:, 0] += 1 / noise  # by symmetry, the unit is in the first step
    ratio = np.exp(z / noise - 1 / (2 * noise**2)).mean(axis=1)
    log_ratio = np.log(ratio) if direction is Direction.REMOVAL else -np.log(ratio)
    values = np.maximum(-np.expm1(np.minimum(epsilon - log_ratio, 0.0)), 0.0)
    return float(values.mean()), float(values.std() / math.sqrt(len(values))) + 4 / len(values)  # also if all are 0


def plans(count: int) -> list[tuple[int, float, float, int]]:
    generator = np.random.default_rng(11)
    steps, noises = generator.integers(2, 60, count), np.exp(generator.uniform(math.log(0.3), math.log(4), count))
    return [
        (int(t), float(s), float(generator.uniform(0, 1.2 / s)), seed)
        for seed, (t, s) in enumerate(zip(steps, noises, strict=True))
    ]


@pytest.mark.parametrize("direction", Direction)
def test_twenty_five_plans_by_simulation(direction: Direction) -> None:
    for steps, noise, epsilon, seed in plans(25):
        mean, error = simulated(steps, noise, direction, epsilon, seed)
        low, high = bounds(steps, noise, direction, epsilon)
        assert low - 6 * error <= mean <= high + 6 * error, (steps, noise, epsilon)


def test_too_little_noise_is_seen_by_the_simulation() -> None:
    """It can fail: with a tenth more noise than there is."""
    outside = 0
    for steps, noise, epsilon, seed in plans(20):
        mean, error = simulated(steps, noise, Direction.REMOVAL, epsilon, seed)
        outside += mean > bounds(steps, 1.1 * noise, Direction.REMOVAL, epsilon)[1] + 6 * error
    assert outside >= 5


PUBLISHED = [(0.8, 3.395, 3.475), (1.0, 1.921, 2.008), (1.5, 0.965, 1.053), (2.0, 0.653, 0.741), (4.0, 0.273, 0.360)]
"""Noise, and an interval for epsilon at delta 1e-6 of ten periods of 100 steps: coarse runs, in dp-accounting, of the
method of Feldman and Shenfeld 2026 (arXiv 2602.17284)."""


@pytest.mark.parametrize(("noise", "low", "high"), PUBLISHED)
def test_published_intervals(noise: float, low: float, high: float) -> None:
    found = guarantee(Repeat(Allocation(100, 1, Gaussian(noise)), 10), 1e-6)
    assert found.lower is not None
    assert low <= found.lower <= found.epsilon <= high
    assert found.epsilon <= 1.005 * found.lower


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_several_chosen_steps_cost_as_many_shorter_periods(adjacency: Adjacency) -> None:
    several = guarantee(Repeat(Allocation(20, 3, Gaussian(2.0)), 2), 1e-5, adjacency)
    periods = guarantee(Repeat(Allocation(6, 1, Gaussian(2.0)), 6), 1e-5, adjacency)
    assert several.epsilon == periods.epsilon
    assert several.epsilon < guarantee(Repeat(Gaussian(2.0), 6), 1e-5, adjacency).epsilon


def test_nothing_is_amplified_where_a_record_replaces_another() -> None:
    found = guarantee(Repeat(Allocation(20, 1, Gaussian(2.0)), 2), 1e-5, Adjacency.REPLACE_ONE)
    assert found.epsilon == guarantee(Repeat(Gaussian(2.0), 2), 1e-5, Adjacency.REPLACE_ONE).epsilon


def test_beside_other_releases_costs_add_up() -> None:
    period, batch, whole = Allocation(10, 1, Gaussian(1.5)), Poisson(0.1, Gaussian(1.2)), Gaussian(9.0)
    alone = [guarantee(one, 1e-6).epsilon for one in (period, batch, whole)]
    together = guarantee(Compose((period, batch, whole)), 3e-6)
    assert max(alone) * 0.95 < together.epsilon < sum(alone)
    assert together.lower is not None
    assert together.epsilon <= 1.01 * together.lower


def test_noise_may_change_between_periods() -> None:
    one, other = (Allocation(30, 1, Gaussian(noise)) for noise in (1.0, 3.0))
    found = guarantee(Compose((Repeat(one, 2), Repeat(other, 3))), 1e-6)
    assert guarantee(Repeat(other, 5), 1e-6).epsilon < found.epsilon < guarantee(Repeat(one, 5), 1e-6).epsilon


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 40), st.floats(0.4, 6.0), st.integers(1, 6))
def test_more_steps_and_more_noise_cost_less(steps: int, noise: float, count: int) -> None:
    def epsilon(t: int, s: float) -> float:
        return guarantee(Repeat(Allocation(t, 1, Gaussian(s)), count), 1e-5).epsilon

    here = epsilon(steps, noise)
    assert epsilon(2 * steps, noise) <= 1.006 * here
    assert epsilon(steps, 1.2 * noise) <= here
    assert here <= guarantee(Repeat(Gaussian(noise), count), 1e-5).epsilon * 1.001


def stated(steps: int, chosen: int, noise: float, count: int) -> tuple[Event, dict[str, object]]:
    inner = {"event": "gaussian", "noise_multiplier": noise, "query": "clipped_sum"}
    period = {"event": "allocation", "steps": steps, "chosen": chosen, "of": inner}
    return Repeat(Allocation(steps, chosen, Gaussian(noise)), count), {"event": "repeat", "count": count, "of": period}


def random_plans(count: int, seed: int, most: int) -> list[tuple[int, int, float, int, float]]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        steps = int(np.exp(generator.uniform(math.log(2), math.log(most))))
        chosen = 1 if generator.random() < 0.7 else int(generator.integers(1, max(2, steps // 2)))
        noise, times = float(np.exp(generator.uniform(math.log(0.5), math.log(5)))), int(generator.integers(1, 20))
        found.append((steps, chosen, noise, times, float(10 ** generator.uniform(-9, -3))))
    return found


def agree(steps: int, chosen: int, noise: float, count: int, delta: float) -> None:
    """Both verifiers accept what the library claims, by routes of their own, and neither accepts 3 % less."""
    event, fields = stated(steps, chosen, noise, count)
    claim = guarantee(event, delta)
    assert claim.lower is not None
    claimed = claim.epsilon * (1 + 5e-4)  # what a plan claims, for another accountant to confirm
    assert decide(fields, delta, "add_remove", claimed).accepted
    found = verify.epsilon_of(verify.multiset(fields), delta, "add_remove", claimed / 20000)
    assert claim.lower <= found <= claimed
    assert not decide(fields, delta, "add_remove", 0.97 * claim.epsilon, finest=0).accepted


@pytest.mark.parametrize("plan", random_plans(6, 1, 200), ids=str)
def test_both_verifiers_agree(plan: tuple[int, int, float, int, float]) -> None:
    agree(*plan)


@pytest.mark.parametrize("plan", random_plans(200, 2, 40)[::10], ids=str)  # all 200 take five minutes
def test_both_verifiers_agree_on_twenty_plans(plan: tuple[int, int, float, int, float]) -> None:
    agree(*plan)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", [0.05, 0.08])
def test_next_to_no_noise_is_no_obstacle(noise: float) -> None:
    """Ratios of densities reach exp(300): all three find bounds, above the truth and near the Gaussian's."""
    event, fields = stated(100, 1, noise, 1)
    claim, gaussian = guarantee(event, 1e-6), guarantee(Gaussian(noise), 1e-6).epsilon
    assert claim.lower is not None
    recomputed = epsilon_bounds(fields, 1e-6, "add_remove", tolerance=0.2).upper
    alone = verify.epsilon_of(verify.multiset(fields), 1e-6, "add_remove", 0.2)
    for epsilon in (claim.epsilon, recomputed, alone):
        assert claim.lower <= epsilon <= 1.01 * gaussian


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000])
def test_sums_keep_mass_and_mean(count: int, direction: Direction, side: Side) -> None:
    """What is moved or dropped is little, and in the direction that the bound allows."""
    found = summed(1.0, count, 5e-3, Rule(direction, side, 1e-15 / count))
    mass = float(found.masses.sum()) + found.zero
    mean = (float(found.masses @ np.exp(found.logs)) + found.infinite) / count
    assert mass == pytest.approx(1, abs=1e-6)
    assert mean == pytest.approx(1, abs=0.02)
    if side is Side.BELOW:
        assert mass <= 1
        assert found.zero == found.infinite == 0
        assert direction is Direction.ADDITION or mean <= 1
    else:
        assert mass >= 1 - 1e-12
        assert mean >= 1 - 1e-12 or direction is Direction.ADDITION


def test_a_coarser_grid_for_few_terms_is_still_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = bounds(50, 0.8, Direction.REMOVAL, 0.5)
    monkeypatch.setattr(lognormal_sum, "_MOST", 128)
    coarse = bounds(50, 0.8, Direction.REMOVAL, 0.5)
    assert coarse[0] <= fine[1]
    assert fine[0] <= coarse[1]
    assert coarse[1] > fine[1]
