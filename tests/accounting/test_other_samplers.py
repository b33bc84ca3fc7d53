"""Truncated, shuffled and allocated batches: tiny exact mechanisms, simulation, mpmath, the published figures."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from lower_bounds import lower

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.answers.bands import best_coefficients, error
from discreet.accounting.answers.compare import counterpart
from discreet.accounting.theories import gdp, shuffled
from discreet.core.adjacency import Adjacency, Query
from discreet.core.array_types import Array
from discreet.core.errors import NotProved
from discreet.core.events import (
    Allocation,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeat,
    TruncatedPoisson,
    batches,
)

ZERO_OUT, REPLACE_ONE = Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE


# --- epochs


def test_parts_of_an_epoch() -> None:
    one, two = Gaussian(1.0), Gaussian(2.0)
    joint = Compose((one, Repeat(two, 3)))
    assert batches(Epoch(one)) == [(one, 1)]
    assert batches(Epoch(Repeat(joint, 10))) == [(joint, 10)]
    assert batches(Epoch(Compose((Repeat(one, 5), two, joint)))) == [(one, 5), (two, 1), (joint, 1)]
    # Queries on one batch add up; batches do not.
    apart = guarantee(Epoch(Compose((one, one))), 1e-5, ZERO_OUT)
    together = guarantee(Epoch(Repeat(Compose((one, one)), 2)), 1e-5, ZERO_OUT)
    assert apart.epsilon == pytest.approx(guarantee(one, 1e-5).epsilon)
    assert together.epsilon == pytest.approx(guarantee(Repeat(one, 2), 1e-5).epsilon)


def test_an_epoch_costs_its_dearest_batch_and_epochs_add_up() -> None:
    """Yu et al. 2019, figure 2: sigma 6, 400 epochs: 19.13 by Gaussian privacy, 21.55 as the paper converts."""
    event = Repeat(Epoch(Repeat(Gaussian(6.0), 100)), 400)
    found = guarantee(event, 1e-5, ZERO_OUT)
    assert round(found.epsilon, 2) == 19.13
    assert round(account(event, 1e-5, ZERO_OUT, Method.ZCDP_RF).epsilon, 2) == 21.55
    assert guarantee(event, 1e-5, REPLACE_ONE).epsilon == pytest.approx(gdp.epsilon_bounds(20 / 3, 1e-5)[1])
    falling = Epoch(Compose((Repeat(Gaussian(8.0), 90), Repeat(Gaussian(4.0), 10))))
    mixed = guarantee(Compose((Repeat(falling, 7), Gaussian(9.0))), 1e-5, ZERO_OUT)
    assert mixed.epsilon == pytest.approx(gdp.epsilon_bounds(math.sqrt(7 / 16 + 1 / 81), 1e-5)[1])
    assert lower(mixed) >= lower(guarantee(Gaussian(9.0), 1e-5)) * (1 - 1e-9)
    laplaces = Epoch(Compose((Laplace(2.0), Laplace(3.0))))
    assert guarantee(Repeat(laplaces, 3), 1e-5, ZERO_OUT, Method.BASIC).epsilon == pytest.approx(1.5)
    with pytest.raises(NotProved, match="Gaussian and pure batches"):
        guarantee(Epoch(Compose((Laplace(2.0), Gaussian(3.0)))), 1e-5, ZERO_OUT)


def test_a_poisson_figure_for_shuffled_batches_is_false() -> None:
    """Chua et al. 2024: one epoch of 10,000 batches at sigma 0.5, delta 1e-6."""
    event = Epoch(Repeat(Gaussian(0.5), 10_000))
    found = guarantee(event, 1e-6, ZERO_OUT)
    assert lower(found) >= 10.99
    beside = counterpart(event, 1e-6, ZERO_OUT)
    assert beside is not None
    assert beside.poisson.epsilon <= 1.96
    assert beside.why.startswith("False of this plan")
    replaced = guarantee(event, 1e-6, REPLACE_ONE)
    assert lower(replaced) == lower(found)  # at the plan's own noise
    assert replaced.epsilon == pytest.approx(guarantee(Gaussian(0.25), 1e-6).epsilon)
    assert counterpart(Repeat(Poisson(0.1, Gaussian(1.0)), 3), 1e-5) is None
    fixed = counterpart(FixedSize(100, 1, Gaussian(1.0)), 1e-5, REPLACE_ONE)
    assert fixed is not None
    assert fixed.why.startswith("Not proved")
    cut = counterpart(TruncatedPoisson(0.01, 5, 100, Gaussian(1.0)), 1e-2)
    assert cut is not None
    assert "costs to bound" in cut.why


def test_correlated_noise_stands_beside_independent_noise_that_is_as_small_in_sums() -> None:
    """What is left of the noise is checked against matrices in test_bands.py."""
    steps, noise = 800, 1.5
    beside = counterpart(Repeat(CyclicPoisson(8, 0.08, Gaussian(noise)), steps // 8), 1e-5)
    assert beside is not None
    equal = noise * error(best_coefficients(8, steps), steps) / error([1.0], steps)
    wanted = guarantee(Repeat(Poisson(0.01, Gaussian(equal)), steps), 1e-5)
    assert beside.poisson.epsilon == pytest.approx(wanted.epsilon, rel=1e-9)
    assert beside.what == "were noise independent"
    assert beside.why.startswith("Independent noise")


@pytest.mark.parametrize(("noise", "count", "delta"), [(0.5, 10_000, 1e-6), (1.0, 10, 1e-3), (2.0, 100, 1e-2)])
def test_the_lower_bound_for_epochs_against_mpmath(noise: float, count: int, delta: float) -> None:
    """The formula of Chua et al. 2024 at fifty digits, its level found by golden section."""
    found = shuffled.epoch_lower([(noise, count)], 1, delta)
    with mp.workdps(50):
        s = mp.mpf(noise)

        def epsilon(level: mp.mpf) -> mp.mpf:
            rest = mp.ncdf(level / s) ** (count - 1)
            p, q = (1 - mp.ncdf((level - mean) / s) * rest for mean in (2, 1))
            return mp.log((p - mp.mpf(delta)) / q) if p > delta else mp.mpf(0)

        levels = [mp.mpf(i) / 400 * (2 + 12 * s) for i in range(401)]
        best = max(epsilon(level) for level in levels)
        finer = max(
            epsilon(levels[max(range(401), key=lambda i: epsilon(levels[i]))] + mp.mpf(i) / 4000) for i in (-9, 9)
        )
        assert found == pytest.approx(float(max(best, finer)), rel=3e-3)
        assert found <= max(best, finer) * (1 + mp.mpf("1e-3"))


def loss_of_epochs(generator: np.random.Generator, noise: float, count: int, epochs: int, size: int) -> Array:
    """Losses log P/Q under P of the pair (2 e_t, e_t), t uniform, of `epochs` independent epochs."""
    total = np.zeros(size)
    for _ in range(epochs):
        x = noise * generator.standard_normal((size, count))
        x[:, 0] += 2.0  # by symmetry
        ratios = [np.exp((2 * mean * x - mean**2) / (2 * noise**2)).mean(axis=1) for mean in (2.0, 1.0)]
        total += np.log(ratios[0]) - np.log(ratios[1])
    return total


@pytest.mark.parametrize(("noise", "count", "epochs"), [(1.0, 8, 1), (0.7, 20, 1), (2.0, 5, 12)])
def test_epochs_lie_between_their_bounds_by_simulation(noise: float, count: int, epochs: int) -> None:
    """A million draws. Each assertion fails for a true bound with probability below 3e-7 (five standard errors)."""
    delta, size = 0.01, 1_000_000 // epochs
    found = guarantee(Repeat(Epoch(Repeat(Gaussian(noise), count)), epochs), delta, ZERO_OUT)
    loss = loss_of_epochs(np.random.default_rng(7), noise, count, epochs, size)
    at = {epsilon: -np.expm1(np.minimum(epsilon - loss, 0.0)) for epsilon in (found.epsilon, lower(found))}
    above, below = at[found.epsilon], at[lower(found)]
    assert 0 < lower(found) < found.epsilon
    assert above.mean() - 5 * above.std() / math.sqrt(size) <= delta
    assert below.mean() + 5 * below.std() / math.sqrt(size) >= delta


def test_an_epoch_of_two_batches_by_quadrature() -> None:
    """Two units, batches of one, the other's contribution chosen at random: no pair exceeds the upper bound."""
    noise, delta = 1.2, 1e-3
    event = Epoch(Repeat(Gaussian(noise), 2))
    x = np.linspace(-1 - 8 * noise, 1 + 8 * noise, 701)
    cell = float(x[1] - x[0]) ** 2

    def density(ours: float, other: float) -> Array:
        one, two = (
            np.exp(-0.5 * ((x - mean) / noise) ** 2) / (noise * math.sqrt(2 * math.pi)) for mean in (ours, other)
        )
        result: Array = 0.5 * (np.outer(one, two) + np.outer(two, one)) * cell
        return result

    for adjacency, null in ((ZERO_OUT, 0.0), (REPLACE_ONE, -1.0)):
        bound = guarantee(event, delta, adjacency).epsilon
        worst = 0.0
        for other in (-1.0, -0.3, 0.0, 0.8, 1.0):
            p, q = density(1.0, other), density(null, other)
            worst = max(worst, *(float(np.maximum(a - math.exp(bound) * b, 0).sum()) for a, b in ((p, q), (q, p))))
        assert 0 < worst <= delta


# --- allocation


def test_allocation_costs_at_most_its_chosen_steps() -> None:
    event = Repeat(Allocation(100, 4, Gaussian(3.0)), 9)
    for adjacency, ratio in ((Adjacency.ADD_REMOVE, 1), (ZERO_OUT, 1), (REPLACE_ONE, 2)):
        most = gdp.epsilon_bounds(ratio * 2.0, 1e-5)[1]
        assert guarantee(event, 1e-5, adjacency, method=Method.GDP).epsilon == pytest.approx(most)
        assert guarantee(event, 1e-5, adjacency).epsilon <= most * (1 + 1e-12)
    every = guarantee(Allocation(4, 4, Gaussian(3.0)), 1e-5)
    assert every == guarantee(Repeat(Gaussian(3.0), 4), 1e-5)
    one = guarantee(Epoch(Gaussian(3.0)), 1e-5, ZERO_OUT)
    assert (one.epsilon, one.lower) == (guarantee(Gaussian(3.0), 1e-5).epsilon, guarantee(Gaussian(3.0), 1e-5).lower)
    assert guarantee(Allocation(9, 2, Laplace(4.0)), 1e-5, method=Method.BASIC).epsilon == pytest.approx(0.5)


@pytest.mark.parametrize(("noise", "steps", "chosen"), [(1.0, 6, 1), (0.8, 5, 2), (2.0, 8, 3)])
def test_allocation_lies_between_its_bounds_by_simulation(noise: float, steps: int, chosen: int) -> None:
    """300,000 draws, both directions. Each assertion fails for a true bound with probability below 3e-7."""
    delta, size = 0.01, 300_000
    found = guarantee(Allocation(steps, chosen, Gaussian(noise)), delta)
    generator = np.random.default_rng(11)
    subsets = list(itertools.combinations(range(steps), chosen))

    def log_ratio(x: Array) -> Array:
        u = (2 * x - 1) / (2 * noise**2)
        result: Array = np.log(np.mean([np.exp(u[:, subset].sum(axis=1)) for subset in map(list, subsets)], axis=0))
        return result

    x = noise * generator.standard_normal((size, steps))
    addition = -log_ratio(x)
    x[:, :chosen] += 1.0
    removal = log_ratio(x)
    for epsilon, holds in ((found.epsilon, False), (lower(found), True)):
        gains = [-np.expm1(np.minimum(epsilon - loss, 0.0)) for loss in (removal, addition)]
        if holds:
            assert max(g.mean() + 5 * g.std() / math.sqrt(size) for g in gains) >= delta
        else:
            assert max(g.mean() - 5 * g.std() / math.sqrt(size) for g in gains) <= delta
    assert 0 < lower(found) < found.epsilon


# --- lower bounds of what cannot be each other's opposite, and mixtures


def test_counts_have_no_published_lower_bound_and_do_not_spoil_others() -> None:
    count, total = Gaussian(1.0, Query.COUNT), Gaussian(1.0)
    assert lower(guarantee(Epoch(Repeat(count, 10)), 1e-3, ZERO_OUT)) == 0.0
    both = guarantee(Epoch(Repeat(Compose((count, total)), 10)), 1e-3, ZERO_OUT)
    assert lower(both) == lower(guarantee(Epoch(Repeat(total, 10)), 1e-3, ZERO_OUT)) > 0


@pytest.mark.parametrize(
    ("first", "second", "adjacency"),
    [
        (Epoch(Repeat(Gaussian(2.0), 10)), Repeat(Poisson(0.1, Gaussian(1.0)), 5), ZERO_OUT),
        (Epoch(Repeat(Gaussian(2.0), 10)), Repeat(FixedSize(100, 10, Gaussian(2.0)), 5), REPLACE_ONE),
        (Allocation(10, 2, Gaussian(3.0)), TruncatedPoisson(0.1, 400, 1000, Gaussian(1.0)), Adjacency.ADD_REMOVE),
        (Repeat(FixedSize(50, 1, Gaussian(1.0)), 3), FixedSize(50, 50, Gaussian(9.0)), REPLACE_ONE),
    ],
)
def test_mixtures_cost_between_the_dearer_part_and_the_sum(first: Event, second: Event, adjacency: Adjacency) -> None:
    parts = [guarantee(event, 5e-6, adjacency) for event in (first, second)]
    whole = guarantee(Compose((first, second)), 1e-5, adjacency)
    assert whole.epsilon <= sum(part.epsilon for part in parts) * 1.001
    assert whole.epsilon >= max(guarantee(event, 1e-5, adjacency).epsilon for event in (first, second)) * 0.999
    assert max(lower(guarantee(event, 1e-5, adjacency)) for event in (first, second)) <= lower(whole) * 1.01 + 1e-3
    assert lower(whole) <= whole.epsilon
