"""Panels of nodes, and the symmetric curve on the contour: against fine quadrature, the grid, and tilting."""

import math
import random

import mpmath as mp
import numpy as np
import pytest
import tilting

from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.pld.contour.characteristic import Decay, estimates, spectrum
from discreet.accounting.pld.contour.chosen_rules import are_enough, rules
from discreet.accounting.pld.contour.nodes import node_count
from discreet.accounting.pld.contour.panels import NODES, panel_rule, panels
from discreet.accounting.pld.contour.sampled_parts import Parts
from discreet.accounting.pld.epsilon_interval import (
    Release,
    _by_contour,
    _interval,
    default_tolerance,
    epsilon_interval,
)
from discreet.accounting.pld.fixed_size_pair import SymmetricPair
from discreet.accounting.pld.poisson_pair import Direction
from discreet.accounting.pld.replacement_interval import symmetrised_interval
from discreet.core.events import Gaussian, Poisson, Repeat

HEAVY = [(1e-6, 0.5, 12.0, 2e4), (1e-6, 0.8, 300.0, 6e4), (1e-4, 0.4, 4.0, 3e3), (1e-3, 2.0, 60.0, 2e4)]
SYMMETRIC = [(1e-5, 0.5, 3.0, 500.0), (0.01, 1.0, 5.0, 8.0), (0.3, 0.6, 2.0, 3.0), (1.0, 2.0, 4.0, 2.0)]


def one_part(rate: float, noise: float, count: float, direction: Direction, *, symmetric: bool = False) -> Parts:
    columns = (np.array([[value]]) for value in (rate, noise, count))
    return Parts.whole(*columns, direction, symmetric=symmetric)


def moments(some: Parts, order: float, t: float) -> tuple[complex, complex]:
    """E[e^(z l)] and E[e^(z l) - 1] for z = order + i t, by Gauss-Legendre on 20,000 panels, with l to its last digit.

    The second is summed without the 1, so that it keeps its digits where losses are small.
    """
    q, s = float(some.rate[0, 0]), float(some.noise[0, 0])
    reach = 11 * s
    low = 0.5 if some.symmetric else -reach - (order if some.direction is Direction.ADDITION and q == 1 else 0)
    high = max(1.0, (order + 1) if some.direction is Direction.REMOVAL else 1.0) + reach
    if math.isfinite(float(some.cut[0, 0])):
        high = min(high, float(some.cut[0, 0]) + 12 * float(some.width[0, 0]))
    edges = np.linspace(low, high, 20_001)
    at, weights = np.polynomial.legendre.leggauss(8)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, np.newaxis] + half * at).ravel()
    log_w = np.log1p(q * np.expm1((2 * x - 1) / (2 * s * s)))
    density = np.tile(half * weights, 20_000) * np.exp(-0.5 * (x / s) ** 2) / (s * math.sqrt(2 * math.pi))
    if math.isfinite(float(some.cut[0, 0])):
        z = (float(some.cut[0, 0]) - x) / float(some.width[0, 0])
        density = density * np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])
    level = (1 - q) * math.erf(1 / (math.sqrt(8) * s)) if some.symmetric else 0.0
    sides = [(log_w, 1.0)] if some.direction is Direction.REMOVAL else [(-log_w, 0.0)]
    if some.symmetric:
        sides = [(log_w, 1.0), (-log_w, 0.0)]
    whole = sum(np.sum(density * np.exp((order + 1j * t) * loss + p * log_w)) for loss, p in sides) + level
    still = sum(np.sum(density * np.exp(order * loss + p * log_w)) for loss, p in sides) + level
    moved = sum(
        np.sum(density * np.exp(order * loss + p * log_w) * (-2 * np.sin(t * loss / 2) ** 2 + 1j * np.sin(t * loss)))
        for loss, p in sides
    )
    return complex(whole), complex(moved / still)


@pytest.mark.parametrize(("rate", "noise", "order", "top"), HEAVY)
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("aside", [1e-14, 1e-10])
def test_panels_against_fine_quadrature(
    rate: float, noise: float, order: float, top: float, direction: Direction, aside: float
) -> None:
    """f - 1 keeps its digits; and panels take far fewer nodes than even ones, else they would not be worth it."""
    some = one_part(rate, noise, 1.0, direction)
    some = some.without(aside) if direction is Direction.REMOVAL else some
    need = 30.0
    chosen = panels(some, order, top, need)
    assert chosen is not None
    nodes = panel_rule(some, order, top, need, chosen)
    size = 60
    logs, rounding, error = spectrum(some, nodes, top / (size - 1), size)
    for j in (1, 7, size - 1):
        exact = moments(some, order, j * top / (size - 1))[1]
        assert abs(np.expm1(logs[j]) - exact) <= error + float(rounding[j]) + 1e-11 * abs(exact) + 1e-18
    assert math.exp(float(nodes.log_moment[0, 0])) == pytest.approx(moments(some, order, 0.0)[0].real, rel=1e-11)
    assert error < 1e-7
    if rate == 1e-6:
        assert NODES * len(chosen) < 0.5 * float(node_count(some, order, top, need)[0])


@pytest.mark.parametrize(("rate", "noise", "order", "top"), SYMMETRIC)
@pytest.mark.parametrize("aside", [0.0, 1e-9])
def test_the_symmetric_curve_against_fine_quadrature(
    rate: float, noise: float, order: float, top: float, aside: float
) -> None:
    some = one_part(rate, noise, 1.0, Direction.REMOVAL, symmetric=True)
    some = some.without(aside) if aside else some
    [(_, nodes)] = rules(some, order, top, 30.0)
    logs, rounding, error = spectrum(some, nodes, top / 9, 10)
    for j in (1, 4, 9):
        exact = moments(some, order, j * top / 9)[1]
        assert abs(np.expm1(logs[j]) - exact) <= error + float(rounding[j]) + 1e-10 * abs(exact)
    whole = moments(some, order, 0.0)[0].real
    assert abs(math.exp(float(nodes.log_moment[0, 0])) / whole - 1) <= float(nodes.error[0, 0]) + 1e-11
    assert abs(estimates(some, np.array([order]))[0] - math.log(whole)) < 1e-6
    assert error < 1e-10
    lost = 1 - moments(some, 0.0, 0.0)[0].real
    assert lost <= some.aside + 1e-11


@pytest.mark.parametrize(("rate", "noise", "order", "top"), [*HEAVY[:2], SYMMETRIC[0], SYMMETRIC[2]])
@pytest.mark.parametrize("need", [3.0, 7.0, 12.0])
def test_an_error_bound_of_panels_holds_where_it_is_large(
    rate: float, noise: float, order: float, top: float, need: float
) -> None:
    """With few panels the error is no longer rounding; it must be below its bound, 2.2 e^-need and what is cut off."""
    symmetric = (rate, noise, order, top) in SYMMETRIC
    some = one_part(rate, noise, 1.0, Direction.REMOVAL, symmetric=symmetric)
    some = some if symmetric else some.without(1e-12)
    chosen = panels(some, order, top, need)
    assert chosen is not None
    nodes = panel_rule(some, order, top, need, chosen)
    for t in (top, top / 3):
        whole = moments(some, order, t)[0]
        found = np.sum(nodes.weight * np.exp(1j * t * nodes.loss)) * math.exp(float(nodes.log_moment[0, 0]))
        assert abs(found - whole) <= float(nodes.error[0, 0]) * moments(some, order, 0.0)[0].real


def test_nodes_and_weights_of_a_panel_are_right_to_their_last_digits() -> None:
    """At thirty digits: `panel_rule` allows for that much."""
    at, weights = np.polynomial.legendre.leggauss(NODES)
    with mp.workdps(30):
        for x, weight in zip(at[NODES // 2 :], weights[NODES // 2 :], strict=True):
            root = mp.findroot(lambda v: mp.legendre(NODES, v), mp.mpf(float(x)))
            slope = NODES * (root * mp.legendre(NODES, root) - mp.legendre(NODES - 1, root)) / (root**2 - 1)
            assert abs(root - float(x)) < 2.0**-50
            assert abs(2 / ((1 - root**2) * slope**2) / float(weight) - 1) < 2.0**-43


@pytest.mark.parametrize(("rate", "noise", "order", "top"), SYMMETRIC)
def test_decay_of_the_symmetric_curve(rate: float, noise: float, order: float, top: float) -> None:
    some = one_part(rate, noise, 1.0, Direction.REMOVAL, symmetric=True)
    [(_, nodes)] = rules(some, order, 0.0, 25.0)
    decay = Decay.of(some, order, nodes)
    last = 0.0
    for t in top * np.geomspace(0.01, 10, 20):
        exact = abs(1 + moments(some, order, float(t))[1])
        bound = float(decay.log_bounds(np.array([t]))[0])
        assert exact <= math.exp(bound) + 1e-11
        assert bound <= last + 1e-12
        last = bound
    assert last < 0


def test_the_symmetric_curve_in_both_ways() -> None:
    """The contour and the grid on 60 random plans: no contradiction, and most of them within reach."""
    rng, reached = random.Random(77), 0
    for _ in range(60):
        releases = [
            Release(10 ** rng.uniform(-5, -0.1), 10 ** rng.uniform(-0.5, 1), int(10 ** rng.uniform(0.3, 4)))
            for _ in range(rng.choice((1, 1, 2, 5)))
        ]
        delta = 10 ** rng.uniform(-9, -2)
        quick = _by_contour(releases, Direction.REMOVAL, delta, default_tolerance, symmetric=True)
        pairs = [(SymmetricPair(one.rate, one.noise, Direction.REMOVAL), one.count) for one in releases]
        grid = _interval(pairs, delta, default_tolerance, 0.0)
        assert quick.lower <= grid.upper
        assert grid.lower <= quick.upper
        reached += quick.upper - quick.lower <= default_tolerance(quick.lower)
    assert reached >= 40


def test_many_steps_of_fixed_size_take_few_nodes() -> None:
    """N 10^7, batches of 100, a million steps: the grid took four million points for a width of 0.1 %."""
    some = one_part(1e-5, 0.5, 1e6, Direction.REMOVAL, symmetric=True)
    assert are_enough(19_999, some, 2.0, 500.0, 30.0)
    found = symmetrised_interval([Release(1e-5, 0.5, 10**6)], 1e-5)
    known = _by_contour([Release(1e-5, 0.5, 10**6)], Direction.REMOVAL, 1e-5, default_tolerance, symmetric=True)
    assert known.upper - known.lower <= 0.002 * known.upper
    assert found.upper == pytest.approx(0.51835, abs=2e-4)  # 0.518346, by a grid of four million points


@pytest.mark.parametrize(
    ("noise", "delta", "truth", "width"),
    [
        (0.5, 1e-5, 0.0266179715825629, 0.01),
        (0.5, 1e-6, 0.05969094703988691, 0.01),
        (0.5, 1e-7, 0.13915470951437517, 0.01),
        (0.8, 1e-5, 0.004261639535927854, 0.001),
        (0.8, 1e-8, 0.007990469216380065, 0.001),
    ],
)
def test_a_million_steps_at_a_rate_of_a_millionth(noise: float, delta: float, truth: float, width: float) -> None:
    """Rare, large losses. The truth is by exponential tilting (`tilting`, 5 to 200 s each)."""
    found = epsilon_interval([Release(1e-6, noise, 10**6)], delta)
    assert found.lower <= truth * (1 + 1e-7)
    assert truth * (1 - 1e-7) <= found.upper
    assert found.upper - found.lower <= width * found.upper


def test_tilting_is_the_source_of_these_values() -> None:
    """The one that takes five seconds, to the digits that the tests above count on: the next ones depend on how a
    processor rounds."""
    assert tilting.Direction([(1e-6, 0.5, 10**6)], removal=True).epsilon(1e-8) == pytest.approx(0.2962669796, rel=1e-7)


@pytest.mark.parametrize(
    ("rate", "noise", "order", "top", "need"), [(1e-3, 0.46, 1.18, 6938.0, 28.0), (1e-3, 0.5, 2.7, 1158.0, 13.0)]
)
def test_panels_are_given_up_where_even_nodes_are_fewer_and_nothing_else_changes(
    rate: float, noise: float, order: float, top: float, need: float
) -> None:
    part = one_part(rate, noise, 10.0, Direction.REMOVAL)
    found = panels(part, order, top, need)
    assert found is not None
    least = NODES * len(found)
    assert panels(part, order, top, need, least) is None
    again = panels(part, order, top, need, least + 1)
    assert again is not None
    assert np.array_equal(again.centre, found.centre)
    fewest = min(least, float(node_count(part, order, top, need).sum()))
    assert are_enough(fewest, part, order, top, need)
    assert not are_enough(fewest - 1, part, order, top, need)


@pytest.mark.parametrize(
    ("rate", "steps", "epsilon", "delta", "noise"),
    [
        (1e-3, 10, 1.0, 1e-5, 0.5068550584219715),
        (1e-4, 3, 8.0, 1e-6, 0.25872553999008735),
    ],
)
def test_noise_of_few_steps_at_low_rates_stays_what_it_was(
    rate: float, steps: int, epsilon: float, delta: float, noise: float
) -> None:
    found, spent = calibrate_noise(lambda one: Repeat(Poisson(rate, Gaussian(one)), steps), epsilon, delta)
    assert found == pytest.approx(noise, rel=1e-4)
    assert spent.epsilon <= epsilon
