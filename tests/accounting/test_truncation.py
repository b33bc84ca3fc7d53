"""Truncated Poisson batches: the theorem that prices them, against binomial tails and a tiny mechanism."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from lower_bounds import lower

from discreet.accounting.account import Method, guarantee
from discreet.accounting.theories import truncation
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.events import (
    Allocation,
    Compose,
    Gaussian,
    Poisson,
    Repeat,
    TruncatedPoisson,
)

ZERO_OUT, REPLACE_ONE = Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("population", "rate", "capacity"),
    [(60000, 0.01, 700), (60000, 0.01, 900), (10**7, 0.001, 10_500), (100, 0.5, 99), (50, 0.02, 3), (10**5, 1e-5, 20)],
)
def test_overflow_against_the_binomial_tail(population: int, rate: float, capacity: int) -> None:
    with mp.workdps(60):
        log_rate, log_rest, term = mp.log(mp.mpf(rate)), mp.log1p(-mp.mpf(rate)), mp.mpf(0)
        for size in range(capacity + 1, min(population, capacity + 1500) + 1):
            term += mp.binomial(population, size) * mp.exp(size * log_rate + (population - size) * log_rest)
        assert term <= truncation.overflow(rate, capacity, population) <= 2 * term
    assert truncation.overflow(rate, population, population) == 0.0
    assert truncation.overflow(rate, int(rate * population) // 3, population) >= 0.5  # below the mean
    assert truncation.overflow(1.0, capacity, population) == 1.0


def test_numbers_of_rows_and_repetitions_beyond_64_bits() -> None:
    assert truncation.overflow(0.5, 6 * 10**29, 10**30) == pytest.approx(0, abs=1e-290)
    assert truncation.overflow(0.5, 10**29, 10**30) == 1.0
    many = guarantee(Repeat(Allocation(100, 1, Gaussian(100.0)), 10**25), 1e-5)
    assert 0 < lower(many) <= many.epsilon < math.inf


def tiny_truncated(noise: float, rate: float, capacity: int, records: int, epsilon: float) -> float:
    """delta(epsilon) of one truncated step, with and without a unit beside `records` units that contribute nothing.

    By enumeration of all subsets and of who is left out.
    """
    x = np.linspace(-9 * noise, 1 + 9 * noise, 4001)

    def density(mean: float) -> Array:
        result: Array = np.exp(-0.5 * ((x - mean) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
        return result

    present = 0.0
    for others in itertools.product((0, 1), repeat=records):
        size = sum(others) + 1
        chance = math.prod(rate if taken else 1 - rate for taken in others) * rate
        present += chance * min(1.0, capacity / size)
    p, q = present * density(1.0) + (1 - present) * density(0.0), density(0.0)
    cell = float(x[1] - x[0])
    gains = (np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell for a, b in ((p, q), (q, p)))
    return float(max(gains))


@pytest.mark.parametrize(("capacity", "delta"), [(3, 0.05), (4, 0.01), (5, 1e-3)])
def test_a_tiny_truncated_mechanism_keeps_its_bounds(capacity: int, delta: float) -> None:
    event = TruncatedPoisson(0.2, capacity, 6, Gaussian(0.8))
    for adjacency in (Adjacency.ADD_REMOVE, ZERO_OUT):
        found = guarantee(event, delta, adjacency)
        assert tiny_truncated(0.8, 0.2, capacity, 5, found.epsilon) <= delta
        # The lower bound is for worst-case data: a unit on its own is never left out.
        # 1e-4 is what the sum over outcomes, whose terms have a kink, is good for.
        assert tiny_truncated(0.8, 0.2, capacity, 0, lower(found)) >= delta * (1 - 1e-4)


def test_truncation_costs_what_the_theorem_says() -> None:
    poisson, steps, delta = Repeat(Poisson(0.01, Gaussian(0.9)), 1800), 1800, 1e-5
    for capacity in (765, 780, 800, 900):
        event = Repeat(TruncatedPoisson(0.01, capacity, 60000, Gaussian(0.9)), steps)
        found, plain = guarantee(event, delta), guarantee(poisson, delta)
        mass = steps * truncation.overflow(0.01, capacity, 60000)
        paid = (1 + math.exp(found.epsilon)) * mass
        assert paid < delta
        assert found.epsilon == pytest.approx(guarantee(poisson, delta - 1.003 * paid).epsilon, rel=2e-4)
        assert guarantee(poisson, delta - 0.99 * paid).epsilon <= found.epsilon * (1 + 1e-6)
        assert lower(found) == lower(plain)
    often = Repeat(TruncatedPoisson(0.01, 700, 60000, Gaussian(0.9)), steps)
    assert guarantee(often, delta, method=Method.RDP).epsilon == math.inf  # which knows only the mass of an overflow
    assert guarantee(poisson, delta).epsilon < guarantee(often, delta).epsilon < 1.1 * guarantee(poisson, delta).epsilon
    whole = guarantee(TruncatedPoisson(0.01, 10, 10, Gaussian(0.9)), delta)
    assert whole == guarantee(Poisson(0.01, Gaussian(0.9)), delta)


def test_truncation_in_a_mixture_and_for_every_proof() -> None:
    event = Compose((Repeat(TruncatedPoisson(0.1, 200, 1000, Gaussian(2.0)), 10), Gaussian(5.0)))
    plain = Compose((Repeat(Poisson(0.1, Gaussian(2.0)), 10), Gaussian(5.0)))
    for method in (Method.PLD, Method.RDP, Method.ADVANCED, Method.BASIC):
        found, other = (guarantee(e, 1e-5, method=method).epsilon for e in (event, plain))
        assert other * (1 - 1e-9) <= found <= other * 1.001
