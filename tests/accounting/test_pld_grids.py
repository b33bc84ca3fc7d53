"""Losses on a grid: they dominate and are dominated, and what composition adds to them is bounded."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from exact_release import hockey_stick
from scipy import fft

from discreet.accounting.pld.compose import compose
from discreet.accounting.pld.discretise import LossPmf, optimistic, pessimistic
from discreet.accounting.pld.poisson_pair import Direction, Pair
from discreet.accounting.pld.query import delta_upper, epsilon_lower, epsilon_upper, least_tests
from discreet.accounting.pld.spectrum import _LogProduct, fft_rounding
from discreet.accounting.pld.window import Window, plan_window

DIGITS = 50


PAIRS = [(0.01, 1.0), (0.3, 0.7), (0.9, 5.0), (1e-4, 0.4), (1.0, 2.0), (1e-6, 20.0)]


@pytest.mark.parametrize(("rate", "noise"), PAIRS)
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("grid", [0.2, 0.003])
def test_discretised_losses_dominate_and_are_dominated(
    rate: float, noise: float, direction: Direction, grid: float
) -> None:
    pair = Pair(rate, noise, direction)
    above, below = pessimistic(pair, grid, 1e-20), optimistic(pair, grid, 1e-20)
    assert np.all(above.masses >= 0)
    assert np.all(below.masses >= 0)
    assert above.masses.sum() + above.infinity >= 1
    assert below.masses.sum() <= 1
    scale = float(np.ptp(pair.loss(np.array(pair.support(1e-6)))))
    with mp.workdps(DIGITS):
        for epsilon in np.linspace(-scale, scale, 41):
            exact = true_delta(pair, float(epsilon))
            assert stick(below, float(epsilon) + below.slack) <= exact
            assert exact <= stick(above, float(epsilon) - above.slack) + above.infinity


def true_delta(pair: Pair, epsilon: float) -> mp.mpf:
    if pair.rate == 1 or epsilon > mp.log1p(-mp.mpf(pair.rate)) or pair.direction is Direction.ADDITION:
        bounded = pair.direction is Direction.ADDITION and pair.rate < 1 and -epsilon <= mp.log1p(-mp.mpf(pair.rate))
        return mp.mpf(0) if bounded else hockey_stick(pair.rate, pair.noise, epsilon, pair.direction)
    return 1 - mp.exp(mp.mpf(epsilon))


def stick(pmf: LossPmf, epsilon: float) -> float:
    above = pmf.losses > epsilon
    return float(np.sum(pmf.masses[above] * -np.expm1(epsilon - pmf.losses[above]), dtype=np.longdouble))


@pytest.mark.parametrize("up", [True, False])
def test_compose_against_exact_convolution(up: bool) -> None:
    """Masses that are binary fractions, three distinct parts, against exact arithmetic: errors within the bounds."""
    grid = 0.25
    rng = np.random.default_rng(5)
    raw = [(first, rng.integers(1, 1000, size)) for first, size in [(-3, 7), (0, 5), (-6, 12)]]
    parts = [
        (LossPmf(grid, first, ints / 2.0**14, 0.0, 0.0, offset), count)
        for (first, ints), offset, count in zip(raw, [0.0, 0.03125, -0.0625], [3, 5, 2], strict=True)
    ]
    window = Window(1.5, -25.0, 30.0, 1.0, 1.0, 1.0, -math.inf)
    found = compose(parts, window, up=up)
    exact = [Fraction(1)]
    first = 0
    for (start, ints), (_, count) in zip(raw, parts, strict=True):
        for _ in range(count):
            new = [Fraction(0)] * (len(exact) + len(ints) - 1)
            for i, a in enumerate(exact):
                for j, b in enumerate(ints):
                    new[i + j] += a * Fraction(int(b), 2**14)
            exact, first = new, first + start
    assert found.offset == pytest.approx(5 * 0.03125 - 2 * 0.0625)
    with mp.workdps(DIGITS):
        index = {first + k: value for k, value in enumerate(exact)}
        truth = [index.get(found.first + k, Fraction(0)) for k in range(len(found.tilted))]
        tilted = [
            mp.mpf(value.numerator) / value.denominator * mp.exp(1.5 * mp.mpf(float(loss)) - mp.mpf(found.log_mgf))
            for value, loss in zip(truth, found.losses, strict=True)
        ]
        difference = [mp.mpf(float(a)) - b for a, b in zip(found.tilted, tilted, strict=True)]
        signed = sum(d for d in difference)
        assert sum(tilted) > 0.9
        assert mp.sqrt(sum(d * d for d in difference)) <= found.error + 1e-11
        assert (signed >= -found.error * len(tilted) ** 0.5) if up else (signed <= found.error * len(tilted) ** 0.5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_compose_against_direct_convolution_of_real_losses(count: int) -> None:
    pmf = pessimistic(Pair(0.2, 1.0, Direction.REMOVAL), 0.05, 1e-18)
    window = plan_window([(Pair(0.2, 1.0, Direction.REMOVAL), count)], 1e-6, 1e-18, 0.05)
    found = compose([(pmf, count)], window, up=True)
    direct = np.ones(1, np.longdouble)
    for _ in range(count):
        direct = np.convolve(direct, pmf.masses.astype(np.longdouble))
    for epsilon in (0.1, 0.7, 2.0):
        losses = (pmf.first * count + np.arange(len(direct))) * np.longdouble(pmf.grid)
        keep = losses > epsilon
        exact = float(np.sum(direct[keep] * -np.expm1(epsilon - losses[keep])))
        upper = delta_upper(found, epsilon)
        assert exact <= upper <= exact * (1 + 1e-4) + 1e-18


@pytest.mark.parametrize("length", [2, 3, 5, 8, 30, 81, 125, 360, 1024, 1215, 2000])
def test_fft_error_is_within_its_bound(length: int) -> None:
    """Against the definition of the discrete Fourier transform in long double (64 bits of mantissa)."""
    rng = np.random.default_rng(length)
    angles = np.outer(np.arange(length // 2 + 1), np.arange(length)) % length
    turn = 2 * np.longdouble("3.14159265358979323846264338327950288") * np.arange(length) / length
    cos, sin = np.cos(turn)[angles], np.sin(turn)[angles]
    for masses in (rng.random(length), rng.random(length) ** 12, np.eye(length)[length // 2]):
        exact = masses.astype(np.longdouble)
        found = fft.rfft(masses)
        error = np.hypot(found.real - cos @ exact, found.imag + sin @ exact)
        assert float(error.max()) <= fft_rounding(length) * float(masses.sum())
        back = fft.irfft(found, length)
        norm = float(np.linalg.norm(masses))
        assert float(np.linalg.norm(back - masses)) <= 2 * fft_rounding(length) * max(norm, float(masses.sum()))


@pytest.mark.parametrize(("rate", "noise", "count"), [(0.01, 1.0, 1000), (0.3, 2.0, 20), (0.001, 0.6, 500)])
@pytest.mark.parametrize("direction", list(Direction))
def test_delta_upper_is_consistent_with_epsilon(rate: float, noise: float, count: int, direction: Direction) -> None:
    pair, delta = Pair(rate, noise, direction), 1e-6
    window = plan_window([(pair, count)], delta, 1e-9 * delta / count, 1e-3)
    up = compose([(pessimistic(pair, 1e-3, 1e-9 * delta / count), count)], window, up=True)
    down = compose([(optimistic(pair, 1e-3, 1e-9 * delta / count), count)], window, up=False)
    epsilon = epsilon_upper(up, delta)
    assert epsilon_lower(down, delta) <= epsilon
    assert delta_upper(up, epsilon + 2 * up.slack) <= delta * (1 + 1e-6)
    assert delta_upper(up, epsilon - 1e-2) > delta
    grid = np.linspace(epsilon / 2, 2 * epsilon, 30)
    deltas_found = [delta_upper(up, float(point)) for point in grid]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(deltas_found))


def test_errors_of_spectra_add_up_in_their_product() -> None:
    """Each factor moved by its error, all the same way: the product is off by what is claimed, or less."""
    spectra, error, counts = np.array([[0.9 + 0.1j], [0.5 - 0.3j]]), np.full((2, 1), 1e-6), np.array([40.0, 3.0])
    product, bound = _LogProduct(np.zeros(1, complex), np.zeros(1), np.zeros(1)).times(spectra, error, counts).value()
    moved = np.prod((spectra * (1 + error / np.abs(spectra))) ** counts[:, np.newaxis])
    assert 0 < abs(moved - product[0]) <= bound[0] <= 2 * abs(moved - product[0])


def test_what_wraps_into_the_window_is_bounded() -> None:
    """Losses -50, 0 and 50 of one release, tilted: the shares outside the window [-20, 20] are known."""
    masses = np.zeros(101)
    masses[[0, 50, 100]] = 0.1, 0.5, 0.4
    window = Window(0.01, -20.0, 20.0, 0.05, 0.04, epsilon=0.0, floor=-math.inf)
    found = compose([(LossPmf(1.0, -50, masses, 0.0, 0.0), 1)], window, up=False)
    tilted = masses * np.exp(0.01 * np.arange(-50, 51))
    assert found.wrapped >= (tilted[0] + tilted[100]) / tilted.sum()
    start, end, losses = found.losses[0], found.losses[-1], np.arange(-50.0, 51.0)
    chernoff = np.sum(tilted * (np.exp(0.05 * (losses - end)) + np.exp(0.04 * (start - losses)))) / tilted.sum()
    assert chernoff <= found.wrapped <= 1.01 * chernoff
    assert [len(shares) for shares in least_tests(replace(found, wrapped=math.inf))] == [0, 0]
