"""Truncated Poisson batches by the pair of a unit that may replace another: attacks, dp-accounting, both routes."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from scipy.special import betainc
from scipy.stats import binom, norm

from discreet.accounting import Compose, delta_at, group_guarantee
from discreet.accounting.account import guarantee
from discreet.accounting.answers import attack_risk, solve
from discreet.accounting.answers.covering_mu import covering_mu
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.pld.discretise import pessimistic
from discreet.accounting.pld.poisson_pair import Direction, Pair
from discreet.accounting.pld.truncated_pair import TruncatedPair
from discreet.accounting.theories.truncation import filled, overflow
from discreet.core.adjacency import Adjacency, Query
from discreet.core.array_types import Array
from discreet.core.events import FixedSize, Gaussian, Poisson, Repeat, SparseHistogram, TruncatedPoisson
from discreet.core.events.event_json import to_json
from discreet.verification.recompute import decide, epsilon_bounds

Plan = tuple[float, int, int, float, int, float]
"""Rate, capacity, population, noise multiplier, steps, delta."""


def random_plans(seed: int, count: int, *, largest: int) -> list[Plan]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        population = int(np.exp(rng.uniform(math.log(3), math.log(largest))))
        rate = float(np.exp(rng.uniform(math.log(0.3 / population), math.log(0.6))))
        mean = rate * population
        capacity = max(1, round(mean + rng.uniform(-0.5, 3.5) * math.sqrt(mean)))
        noise, steps = float(np.exp(rng.uniform(math.log(0.7), math.log(6)))), int(10 ** rng.uniform(0, 2.5))
        found.append((min(rate, 0.9), capacity, population, noise, steps, float(10 ** rng.uniform(-6, -2))))
    return found


def event_of(plan: Plan) -> Repeat:
    rate, capacity, population, noise, steps, _ = plan
    return Repeat(TruncatedPoisson(rate, capacity, population, Gaussian(noise)), steps)


def attacked(plan: Plan, *, zero_out: bool) -> float:
    """delta at the certified epsilon of an attack that exists: all others contribute -1, the unit +1, in every step.

    The outputs are numbers, cut into cells; the losses of the cells are rounded down to a grid and composed by FFT.
    """
    rate, capacity, population, noise, steps, delta = plan
    others = population - 1
    k = np.arange(others + 1)
    chance = binom.pmf(k, others, rate)
    held, kept = np.minimum(k, capacity), np.minimum(1.0, capacity / (k + 1))  # kept: the unit, once drawn
    cells = np.linspace(-capacity - 10 * noise, 1 + 10 * noise, 6001)

    def masses(weights: Array, means: Array) -> Array:
        total = np.zeros(len(cells) - 1)
        for weight, mean in zip(weights, means, strict=True):
            if weight > 1e-12:
                total += weight * np.diff(norm.cdf(cells, mean, noise))
        return total

    rest = np.minimum(k, capacity - 1)  # members beside the unit, if it stays
    with_unit = masses(chance * rate * kept, 1 - rest) + masses(chance * (1 - rate * kept), -held)
    empty = masses(chance * rate * kept, -rest) + masses(chance * (1 - rate * kept), -held)
    without = empty if zero_out else masses(chance, -held)
    epsilon = guarantee(event_of(plan), delta, Adjacency.ZERO_OUT if zero_out else Adjacency.ADD_REMOVE).epsilon
    return max(_composed(*pair, steps, epsilon) for pair in ((with_unit, without), (without, with_unit)))


def _composed(p: Array, q: Array, steps: int, epsilon: float) -> float:
    usable = (p > 1e-14) & (q > 1e-14)
    loss, p = np.log(p[usable] / q[usable]), p[usable]
    spread = math.sqrt(steps * float(p @ loss**2)) + float(np.ptp(loss))
    grid = max(spread / 4000, 1e-7)
    size = 1 << 16
    law = np.bincount(np.floor(loss / grid).astype(np.int64) % size, p, minlength=size)
    total = np.fft.irfft(np.fft.rfft(law) ** steps, size)
    middle = round(steps * float(p @ loss) / grid) - size // 2
    places = middle + (np.arange(size) - middle) % size
    losses = places * grid
    gain = np.where(losses > epsilon, -np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
    return float(np.maximum(total, 0.0) @ gain) - 1e-9  # rounding of the transform


@pytest.mark.parametrize("zero_out", [False, True])
def test_no_attack_exceeds_the_delta_of_its_epsilon(zero_out: bool) -> None:
    adjacency = Adjacency.ZERO_OUT if zero_out else Adjacency.ADD_REMOVE
    for plan in random_plans(7, 6, largest=30):
        epsilon = guarantee(event_of(plan), plan[-1], adjacency).epsilon
        found = delta_at(event_of(plan), epsilon, adjacency)
        assert attacked(plan, zero_out=zero_out) <= found.delta <= 1.02 * plan[-1], plan


@pytest.mark.parametrize("zero_out", [False, True])
def test_no_attack_on_100_random_plans_exceeds_the_bound(zero_out: bool) -> None:
    finite = close = 0
    for plan in random_plans(5, 100, largest=40):
        delta = attacked(plan, zero_out=zero_out)
        assert delta <= plan[-1], plan
        finite += 1
        close += delta > 0.05 * plan[-1]
    assert finite == 100
    assert close >= 10  # the attack is not toothless


@pytest.mark.parametrize(
    ("rate", "capacity", "population", "noise", "steps", "delta"),
    [
        (256 / 60000, 280, 60000, 1.1, 1000, 1e-5),
        (256 / 60000, 300, 60000, 1.1, 14062, 1e-5),
        (0.01, 110, 10000, 1.0, 500, 1e-6),
        (0.1, 8, 50, 2.0, 100, 1e-5),
    ],
)
def test_against_dp_accounting(
    rate: float, capacity: int, population: int, noise: float, steps: int, delta: float
) -> None:
    """Its bound averages the chance to stay, ours does not; and symmetrises the second branch, which ours does not."""
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.TruncatedSubsampledGaussianDpEvent(population, rate, capacity, noise), steps)
    theirs = float(accountant.get_epsilon(delta))
    event = Repeat(TruncatedPoisson(rate, capacity, population, Gaussian(noise)), steps)
    ours, null = guarantee(event, delta), guarantee(event, delta, Adjacency.ZERO_OUT)
    poisson = guarantee(Repeat(Poisson(rate, Gaussian(noise)), steps), delta)
    assert poisson.epsilon < ours.epsilon <= null.epsilon
    assert 0.93 * theirs <= ours.epsilon <= 1.01 * theirs
    assert ours.lower == poisson.lower


def test_the_parts_of_the_mixture_and_its_ends() -> None:
    """Without truncation it is the Poisson pair; where others always fill the batch, that of a replacement."""
    edges = np.linspace(-2, 3, 400)
    for direction in Direction:
        own, other = Pair(0.1, 1.3, direction), Pair(0.1, 0.65, direction)
        for share, pure in ((0.0, own), (1.0, other)):
            found, wanted = TruncatedPair(0.1, 1.3, direction, 0.65, share, False).bins(edges), pure.bins(edges)
            for name in ("p", "q", "below", "above"):
                assert np.allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12, atol=0)
        grid = [
            pessimistic(TruncatedPair(0.1, 1.3, direction, 0.65, share, False), 0.01, 1e-12) for share in (0.2, 0.7)
        ]
        for pmf in grid:
            assert 1 <= pmf.masses.sum() + float(pmf.infinity) <= 1 + 1e-9


def test_counts_are_replaced_at_their_own_sensitivity() -> None:
    """A unit that replaces another moves a count by one, and a clipped sum by two."""
    counted = Repeat(TruncatedPoisson(0.1, 12, 100, Gaussian(1.0, Query.COUNT)), 10)
    summed = Repeat(TruncatedPoisson(0.1, 12, 100, Gaussian(1.0)), 10)
    assert guarantee(counted, 1e-5).epsilon < 0.7 * guarantee(summed, 1e-5).epsilon


def test_more_room_costs_less_down_to_poisson() -> None:
    found = [
        guarantee(Repeat(TruncatedPoisson(0.01, capacity, 10_000, Gaussian(1.0)), 200), 1e-6).epsilon
        for capacity in (1, 50, 90, 110, 130, 150, 200, 400)
    ]
    assert all(more <= less * 1.002 for less, more in itertools.pairwise(found))
    assert found[0] < math.inf
    assert found[-1] == pytest.approx(guarantee(Repeat(Poisson(0.01, Gaussian(1.0)), 200), 1e-6).epsilon, rel=1e-4)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
@pytest.mark.parametrize(
    ("noise", "steps", "rate", "capacity", "population", "delta"),
    [(2.0, 100, 0.1, 8, 50, 1e-5), (2.0, 100, 0.1, 20, 100, 1e-5), (3.0, 5, 1.0, 9, 10, 1e-3)],
)
def test_every_question_has_the_answer_of_epsilon(
    noise: float, steps: int, rate: float, capacity: int, population: int, delta: float, adjacency: Adjacency
) -> None:
    """delta at an epsilon, the trade-off function, its (epsilon, delta), and a group of two."""
    event = Repeat(TruncatedPoisson(rate, capacity, population, Gaussian(noise)), steps)
    certified = guarantee(event, delta, adjacency)
    found = delta_at(event, certified.epsilon, adjacency)
    assert found.lower is not None
    assert found.lower <= delta
    assert 0.9 * delta <= found.delta <= 1.02 * delta  # the curve may be a little sharper than one epsilon
    curve = trade_off(event, adjacency, delta)
    assert certified.lower is not None
    assert certified.lower <= curve.epsilon(delta) <= certified.epsilon * 1.005
    risk = attack_risk.from_event(event, adjacency)
    assert risk.true_positive_rate(0.01) <= attack_risk.from_budget(certified.epsilon, delta).true_positive_rate(0.01)
    pair = group_guarantee(event, 2, delta, adjacency)
    assert certified.epsilon < pair.epsilon < 5 * certified.epsilon


def test_delta_of_a_long_run() -> None:
    """256 of 60,000 on average, with room for 320: next to nothing above Poisson batches, which bound it from below."""
    event = Repeat(TruncatedPoisson(256 / 60000, 320, 60000, Gaussian(1.1)), 14062)
    found = delta_at(event, guarantee(event, 1e-5).epsilon)
    assert found.lower is not None
    assert 8e-6 < found.lower < found.delta <= 1.01e-5


def test_noise_for_an_attack_on_truncated_batches() -> None:
    """20 places for 10 on average cost little beside Poisson batches, whose noise is a lower bound."""

    def truncated(noise: float) -> Repeat:
        return Repeat(TruncatedPoisson(0.1, 20, 100, Gaussian(noise)), 10)

    found = solve.noise_for(truncated, solve.true_positives_of(0.01), 0.05)
    plain = solve.noise_for(lambda s: Repeat(Poisson(0.1, Gaussian(s)), 10), solve.true_positives_of(0.01), 0.05)
    assert plain.value * 0.999 <= found.value <= 1.1 * plain.value


def test_beside_other_releases() -> None:
    truncated, batch, whole = TruncatedPoisson(0.1, 12, 100, Gaussian(2.0)), Poisson(0.1, Gaussian(1.5)), Gaussian(9.0)
    alone = [guarantee(one, 1e-6).epsilon for one in (truncated, batch, whole)]
    together = guarantee(Compose((truncated, batch, whole)), 3e-6)
    assert max(alone) * 0.9 < together.epsilon < sum(alone)


@pytest.mark.parametrize(("rate", "capacity", "population"), [(0.01, 120, 10_000), (0.3, 5, 12), (1e-5, 3, 10**6)])
def test_the_chance_that_others_fill_a_batch(rate: float, capacity: int, population: int) -> None:
    """Against mpmath's incomplete beta function; and what the verifier assumes of scipy's."""
    with mp.workdps(40):
        exact = mp.betainc(capacity, population - capacity, 0, mp.mpf(rate), regularized=True)
        found = filled(rate, capacity, population)
        assert exact <= found <= exact * (1 + mp.mpf(10) ** -6)
        assert abs(betainc(capacity, population - capacity, rate) / exact - 1) <= 1e-9
    assert filled(rate, population, population) == 0
    assert filled(1.0, capacity, population) == 1
    assert overflow(rate, capacity - 1, population - 1) >= exact


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_the_verifier_agrees_on_random_plans(adjacency: Adjacency) -> None:
    """13 under each adjacency; by its own grid and its own chance of a full batch. It rejects 3 % less."""
    rejected = 0
    for plan in list(random_plans(11, 100, largest=5000))[::8]:
        event, delta = event_of(plan), plan[-1]
        claim = guarantee(event, delta, adjacency)
        claimed = claim.epsilon * (1 + 5e-4) + 1e-5
        assert decide(to_json(event), delta, adjacency.value, claimed).accepted, plan
        lower = 0.97 * claim.epsilon - 1e-5
        if lower <= 0:
            rejected += 1
            continue
        rejected += not decide(to_json(event), delta, adjacency.value, lower, finest=0).accepted
    assert rejected >= 12


def test_a_verifier_without_room_for_anybody_still_has_a_bound() -> None:
    event = to_json(Repeat(TruncatedPoisson(1.0, 5, 10, Gaussian(3.0)), 4))
    found = epsilon_bounds(event, 1e-5, "add_remove", tolerance=1e-3)
    whole = guarantee(Repeat(Gaussian(1.5), 4), 1e-5).epsilon
    assert found.upper == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_batches_of_everybody_are_truncated_on_every_path(epsilon: float) -> None:
    """At rate 1 nothing is sampled, and yet one of eleven is left out. Ten others add -1 and the unit adds 1, so that
    with chance 10/11 the sum moves by 2: the delta of that mixture, in closed form, is a lower bound."""
    event, p = TruncatedPoisson(1.0, 10, 11, Gaussian(1.0)), 10 / 11
    cut = (math.log(math.expm1(epsilon) / p + 1) + 2.0) / 2  # where the loss of (1 - p) N(0) + p N(2) is epsilon
    truth = (1 - p) * norm.sf(cut) + p * norm.sf(cut - 2) - math.exp(epsilon) * norm.sf(cut)
    assert truth > 0.07
    assert delta_at(event, epsilon).delta >= truth
    assert group_guarantee(event, 2, 1e-2).epsilon >= guarantee(event, 1e-2).epsilon


@pytest.mark.parametrize(("count", "delta"), [(2, 0.3), (2, 0.1), (4, 0.3), (4, 0.1), (4, 0.01)])
def test_a_truncated_release_beside_batches_of_fixed_size_lowers_no_price(count: int, delta: float) -> None:
    """Steps of fixed size are proved by their symmetrised curve, and not by the pairs of truncated batches."""
    fixed = Repeat(FixedSize(10, 5, Gaussian(1.0)), count)
    beside = Compose((fixed, TruncatedPoisson(1.0, 1, 3, Gaussian(1e6))))
    assert (
        guarantee(beside, delta, Adjacency.REPLACE_ONE).epsilon
        >= guarantee(fixed, delta, Adjacency.REPLACE_ONE).epsilon
    )


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_losses_beyond_every_number_are_no_bound_beside_a_sparse_histogram(adjacency: Adjacency) -> None:
    """e^eps is infinite at some knots; times an overflow of 0 that is NaN, which was taken for a delta of 0."""
    steps = Repeat(TruncatedPoisson(0.5, 15, 20, Gaussian(1.0)), 10_000)
    curve = trade_off(Compose((steps, SparseHistogram(4.0, 24.0))), adjacency)
    assert covering_mu(trade_off(steps, adjacency), 1e-5) == math.inf
    assert covering_mu(curve, 1e-5) == math.inf
    shares = np.linspace(0, 1, 101)
    assert np.all((curve.lower(shares) >= 0) & (curve.lower(shares) <= 1 - shares))
    assert np.all(curve.delta(np.array([0.0, 1.0, 700.0, 720.0, 1e5])) <= 1)


def test_no_data_set_shows_both_a_full_batch_and_a_value_of_a_sparse_histogram() -> None:
    """At most 20 units never pass a threshold of 39: an attack on both at once was claimed, by "at least"."""
    steps = TruncatedPoisson(0.5, 1, 20, Gaussian(10.0))
    both = Compose((steps, SparseHistogram(1.0, 39.0)))
    alone = delta_at(steps, 0.0).delta
    least = delta_at(both, 0.0).lower
    assert least is not None
    assert least <= alone
    assert guarantee(both, 1e-3).lower <= guarantee(steps, 1e-3).epsilon
    assert trade_off(both).upper(np.array([0.1]))[0] >= 0.9 - alone
