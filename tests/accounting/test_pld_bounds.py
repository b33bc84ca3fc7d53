"""The PLD interval brackets what is known otherwise: closed forms, quadrature, convolution, tilted transforms."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from exact_release import hockey_stick, normal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from tilting import epsilon_of

from discreet.accounting.pld import closed_form
from discreet.accounting.pld.epsilon_interval import (
    EpsilonInterval,
    Release,
    _by_contour,
    _by_grid,
    default_tolerance,
    epsilon_interval,
)
from discreet.accounting.pld.poisson_pair import Direction, Pair
from discreet.accounting.theories import gdp

DIGITS = 50
METHODS = [_by_contour, _by_grid]


def solve(rate: float, noise: float, delta: float, direction: Direction) -> mp.mpf:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, by bisection at 50 digits."""
    low, high = mp.mpf(0), mp.mpf(1)
    if hockey_stick(rate, noise, low, direction) <= delta:
        return low
    while hockey_stick(rate, noise, high, direction) > delta:
        low, high = high, 2 * high
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(rate, noise, middle, direction) > delta else (low, middle)
    return high


rates = st.one_of(st.floats(0.001, 0.999), st.floats(-6, -0.001).map(lambda power: 10**power))
noises = st.floats(math.log(0.25), math.log(30)).map(math.exp)
deltas = st.floats(-12, -2).map(lambda power: 10**power)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rates, noises, deltas, st.sampled_from(Direction))
def test_one_step_brackets_the_closed_form(rate: float, noise: float, delta: float, direction: Direction) -> None:
    with mp.workdps(DIGITS):
        exact = solve(rate, noise, delta, direction)
        for method in METHODS:
            one = method([Release(rate, noise, 1)], direction, delta, default_tolerance)
            assert one.lower <= exact <= one.upper


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rates, noises, deltas)
def test_one_step_takes_the_worse_direction(rate: float, noise: float, delta: float) -> None:
    with mp.workdps(DIGITS):
        exact = max(solve(rate, noise, delta, direction) for direction in Direction)
        found = epsilon_interval([Release(rate, noise, 1)], delta)
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= max(0.02 * exact, 1e-3)


@settings(max_examples=20, deadline=None, derandomize=True)
@example(4.4e-4, 0.62, 1e-9, Direction.REMOVAL)
@given(rates, noises, deltas, st.sampled_from(Direction))
def test_the_closed_form_of_one_step_is_tight(rate: float, noise: float, delta: float, direction: Direction) -> None:
    """Against fifty digits, to a few roundings of the loss. On a grid the example is twenty times too wide."""
    with mp.workdps(DIGITS):
        exact = solve(rate, noise, delta, direction)
        lower, upper = closed_form.epsilon_bounds(Pair(rate, noise, direction), delta)
        assert lower <= exact <= upper
        assert upper - lower <= 1e-9 * exact + 1e-12 * (2 - math.log(rate) + noise**-2)


def test_the_closed_form_says_when_it_is_out_of_reach() -> None:
    assert closed_form.epsilon_bounds(Pair(0.5, 0.02, Direction.REMOVAL), 1e-5) == (0.0, math.inf)
    assert closed_form.epsilon_bounds(Pair(0.5, 1e-200, Direction.REMOVAL), 1e-5)[1] == math.inf


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_nothing_to_tell_apart_within_delta_is_epsilon_zero(factor: float) -> None:
    """delta(0) of one release is q (2 Phi(1 / 2 s) - 1), the total variation distance; two cost at most twice that."""
    rate, noise = 1e-4, 0.8
    distance = rate * (2 * float(normal(mp.mpf(1) / (2 * noise))) - 1)
    assert (epsilon_interval([Release(rate, noise, 1)], distance * factor).upper == 0) == (factor > 1)
    assert epsilon_interval([Release(rate, noise, 2)], 2 * distance * 1.001) == EpsilonInterval(0.0, 0.0)


@pytest.mark.parametrize("seed", [1, 2])
def test_hundreds_of_different_releases(seed: int) -> None:
    """Drawn at random, few resemble another, and a few outweigh the rest: each counts in the plan of the window."""
    rng = random.Random(seed)
    releases = [
        Release(10 ** rng.uniform(-6, 0), 10 ** rng.uniform(-0.7, 2), rng.randrange(1, 400)) for _ in range(400)
    ]
    found = epsilon_interval(releases, 1e-8)
    assert found.upper - found.lower <= default_tolerance(found.upper)


def by_quadrature(steps: list[tuple[float, float]], epsilon: float, direction: Direction) -> float:
    """delta(epsilon) of a few steps: Gauss-Legendre over the outcomes of all but the last, closed form for it."""
    *others, (rate, noise) = steps
    nodes, weights = np.polynomial.legendre.leggauss(8)
    losses, masses = np.zeros(1), np.ones(1)
    for q, s in others:
        edges = np.linspace(-11 * s, 1 + 11 * s, 161)
        x = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(edges)])
        w = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(edges)])
        null, shifted = (np.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2 * math.pi)) for m in (0, 1))
        mixed = (1 - q) * null + q * shifted
        removal = direction is Direction.REMOVAL
        loss = np.log1p(q * np.expm1((2 * x - 1) / (2 * s * s))) * (1 if removal else -1)
        mass = w * (mixed if removal else null)
        losses, masses = np.add.outer(losses, loss).ravel(), np.multiply.outer(masses, mass).ravel()
    remaining = epsilon - losses
    sign = 1 if direction is Direction.REMOVAL else -1
    inside = (np.exp(sign * remaining) - (1 - rate)) / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(inside > 0, noise**2 * np.log(np.maximum(inside, 0)) + 0.5, -np.inf)
    if sign == 1:
        null, shifted = ndtr(-x / noise), ndtr((1 - x) / noise)
        p, q_mass = (1 - rate) * null + rate * shifted, null
    else:
        null, shifted = ndtr(x / noise), ndtr((x - 1) / noise)
        p, q_mass = null, (1 - rate) * null + rate * shifted
    return float(masses @ np.maximum(p - np.exp(remaining) * q_mass, 0.0))


@pytest.mark.parametrize(
    ("steps", "delta"),
    [
        ([(0.1, 0.8), (0.1, 0.8)], 1e-5),
        ([(0.01, 0.6), (0.3, 1.5)], 1e-6),
        ([(0.5, 2.0), (0.02, 0.7)], 1e-4),
        ([(0.2, 1.0), (0.2, 1.0), (0.2, 1.0)], 1e-5),
        ([(0.9, 3.0), (0.05, 0.9), (0.3, 1.2)], 1e-6),
    ],
)
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("method", METHODS)
def test_a_few_steps_bracket_the_quadrature(
    steps: list[tuple[float, float]], delta: float, direction: Direction, method: Callable[..., EpsilonInterval]
) -> None:
    one = method([Release(q, s, 1) for q, s in steps], direction, delta, lambda e: 1e-4 * (1 + e))
    accuracy = 1e-5  # of the quadrature, relative: its integrand has a kink where the last loss is at its least
    assert one.upper == math.inf or by_quadrature(steps, one.upper, direction) <= delta * (1 + accuracy)
    assert by_quadrature(steps, one.lower, direction) >= delta * (1 - accuracy)


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("noise", "count"), [(0.5, 1), (1.0, 1), (4.0, 7), (1.0, 50), (10.0, 1000), (300.0, 10_000)])
def test_without_sampling_against_the_closed_form(noise: float, count: int, delta: float) -> None:
    """Rate 1 through the whole pipeline; the exact epsilon is that of mu = sqrt(count) / noise, at 50 digits."""
    with mp.workdps(DIGITS):
        closed_form = float(mp.mpf(noise) / mp.sqrt(count))
        exact = solve(1.0, closed_form, delta, Direction.REMOVAL)
        found = epsilon_interval([Release(1.0, noise, count)], delta)
        assert found.lower <= exact * (1 + 1e-14)
        assert found.upper >= exact * (1 - 1e-14)
        assert found.upper - found.lower <= max(0.005 * exact, 1e-4)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.floats(-3, 2).map(lambda p: 10**p), st.floats(-15, -0.1).map(lambda p: 10**p))
def test_the_closed_form_itself(mu: float, delta: float) -> None:
    """`gdp.epsilon_bounds` brackets the root of Balle and Wang's Theorem 8 at 50 digits, tightly."""
    with mp.workdps(DIGITS):
        m = mp.mpf(mu)
        lower, upper = gdp.epsilon_bounds(mu, delta)

        def truth(epsilon: float) -> mp.mpf:
            return normal(m / 2 - epsilon / m) - mp.exp(mp.mpf(epsilon)) * normal(-m / 2 - epsilon / m)

        assert truth(upper) <= delta
        assert lower == 0 or truth(lower) >= delta
        assert upper - lower <= 1e-9 * (1 + upper) + 1e-12 / delta * 1e-3


def test_against_tilting_on_heterogeneous_plans() -> None:
    """A reference that keeps its digits at delta 1e-8: between our bounds."""
    rng = random.Random(20260101)
    for _ in range(5):  # 300 more: tests/accounting/reference/heterogeneous.py
        parts = [
            (10 ** rng.uniform(-3, -0.3), 10 ** rng.uniform(-0.2, 0.7), rng.randint(1, 200))
            for _ in range(rng.randint(1, 3))
        ]
        delta = 10 ** rng.uniform(-8, -4)
        exact = epsilon_of(parts, delta)
        ours = epsilon_interval([Release(*part) for part in parts], delta)
        assert ours.lower * (1 - 1e-6) <= exact <= ours.upper * (1 + 1e-6)
        assert ours.upper <= exact * 1.003 + 1e-4
