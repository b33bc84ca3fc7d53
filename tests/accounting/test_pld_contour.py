"""The contour method: each ingredient against quadrature, the interval against the grid and exact answers."""

import math
import random
from dataclasses import replace
from types import ModuleType

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

from discreet.accounting.pld.contour import characteristic, inversion, inversion_plan
from discreet.accounting.pld.contour.characteristic import Decay, spectrum
from discreet.accounting.pld.contour.chosen_rules import rules
from discreet.accounting.pld.contour.inversion_plan import Plan
from discreet.accounting.pld.contour.nodes import node_count, rule
from discreet.accounting.pld.contour.sampled_parts import Parts
from discreet.accounting.pld.epsilon_interval import Release, _by_contour, _by_grid, default_tolerance
from discreet.accounting.pld.poisson_pair import Direction
from discreet.accounting.theories import gdp

CASES = [(0.01, 1.0, 5.0), (0.3, 0.7, 2.5), (1e-4, 0.5, 8.0), (0.9, 4.0, 30.0), (1.0, 2.0, 3.0), (1e-3, 20.0, 300.0)]


def parts(rate: float, noise: float, count: float, direction: Direction) -> Parts:
    return Parts.whole(np.array([[rate]]), np.array([[noise]]), np.array([[count]]), direction)


def moment(some: Parts, order: float, t: float = 0.0) -> complex:
    """E_P[g e^((order + i t) loss)] by Gauss-Legendre on 2,000 panels: 40,000 outcomes, to about 1e-13."""
    q, s = float(some.rate[0, 0]), float(some.noise[0, 0])
    sign = 1 if some.direction is Direction.REMOVAL else -1
    a = order + 1 if sign == 1 else -order
    edges = np.linspace(min(-1.0, a) - 10 * s, max(1.0, a) + 10 * s, 2001)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, np.newaxis] + half * nodes).ravel()
    log_w = np.log1p(q * np.expm1((2 * x - 1) / (2 * s * s)))
    with np.errstate(divide="ignore"):
        density = np.log(ndtr((some.cut[0, 0] - x) / some.width[0, 0])) if math.isfinite(some.cut[0, 0]) else 0.0 * x
    density += a * log_w - 0.5 * (x / s) ** 2
    measure = np.tile(half * weights, 2000) * np.exp(density) / (s * math.sqrt(2 * math.pi))
    return complex(np.sum(measure * np.exp(1j * t * sign * log_w)))


@pytest.mark.parametrize(("rate", "noise", "order"), CASES)
@pytest.mark.parametrize("direction", list(Direction))
def test_characteristic_function_against_quadrature(
    rate: float, noise: float, order: float, direction: Direction
) -> None:
    some = parts(rate, noise, 1.0, direction)
    size, need = 4, 25.0
    [(_, nodes)] = rules(some, order, 0.0, need)
    spacing = 0.5 / math.sqrt(float(np.sum(nodes.weight * nodes.loss**2) - np.sum(nodes.weight * nodes.loss) ** 2))
    top = spacing * (size - 1)
    nodes = rule(some, order, top, need, int(node_count(some, order, top, need)[0]))
    logs, rounding, errors = spectrum(some, nodes, spacing, size)
    exact = [moment(some, order, spacing * j) for j in range(size)]
    assert abs(math.exp(float(nodes.log_moment[0, 0])) / exact[0] - 1) <= errors + 1e-12
    for found, value, each in zip(np.exp(logs), exact, rounding, strict=True):
        assert abs(found - value / exact[0]) <= 2 * errors + float(each) + 1e-12
    assert errors < 1e-8


@pytest.mark.parametrize("mass", [1e-4, 1e-9])
def test_outcomes_set_aside(mass: float) -> None:
    """What is kept and what is set aside add up to one, and the moments of what is kept agree with quadrature."""
    some = parts(0.001, 0.7, 1.0, Direction.REMOVAL).without(mass)
    assert some.aside <= 1.01 * mass
    assert abs(1 - moment(some, 0.0) - some.aside) <= 1e-6 * some.aside + 1e-12
    for order in (5.0, 50.0):
        nodes = rule(some, order, 20.0, 25.0, int(node_count(some, order, 20.0, 25.0)[0]))
        logs, rounding, errors = spectrum(some, nodes, 20.0, 2)
        scale = moment(some, order)
        assert abs(math.exp(float(nodes.log_moment[0, 0])) / scale - 1) <= errors + 1e-12
        assert abs(np.exp(logs[1]) - moment(some, order, 20.0) / scale) <= 2 * errors + float(rounding[1]) + 1e-12
        assert errors < 1e-8


@pytest.mark.parametrize(("rate", "noise", "order"), CASES)
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("aside", [0.0, 1e-8])
def test_decay_bounds_the_characteristic_function(
    rate: float, noise: float, order: float, direction: Direction, aside: float
) -> None:
    """At frequencies from far below to far above the inverse of the standard deviation; and it falls."""
    some = parts(rate, noise, 1.0, direction)
    some = some.without(aside) if aside and direction is Direction.REMOVAL else some
    [(_, nodes)] = rules(some, order, 0.0, 20.0, finer=3.0)
    decay = Decay.of(some, order, nodes)
    scale = 1 / float(np.sqrt(np.sum(nodes.weight * nodes.loss**2) - np.sum(nodes.weight * nodes.loss) ** 2))
    last = 0.0
    for t in scale * np.geomspace(0.01, 30, 25):
        need = 12.0
        fine = rule(some, order, float(t), need, int(node_count(some, order, float(t), need)[0]))
        exact = abs(np.sum(fine.weight * np.exp(1j * t * fine.loss)))
        bound = float(decay.log_bounds(np.array([t]))[0])
        assert exact <= math.exp(bound) + float(fine.error[0, 0])
        assert bound <= last + 1e-12
        last = bound
    assert last < -1e-4


def random_plans(seed: int, count: int) -> list[tuple[list[Release], float]]:
    rng = random.Random(seed)
    return [
        (
            [
                Release(10 ** rng.uniform(-4, -0.1), 10 ** rng.uniform(-0.3, 1), int(10 ** rng.uniform(0, 4)))
                for _ in range(rng.choice((1, 1, 2, 5)))
            ],
            10 ** rng.uniform(-9, -2),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("direction", list(Direction))
def test_agrees_with_the_grid(direction: Direction) -> None:
    """Two ways that share no step after the definition of the loss; most of the plans must be within reach."""
    reached = 0
    for releases, delta in random_plans(41, 40):
        quick = _by_contour(releases, direction, delta, default_tolerance)
        if not quick.upper < math.inf:
            continue
        grid = _by_grid(releases, direction, delta, default_tolerance)
        assert quick.lower <= grid.upper
        assert grid.lower <= quick.upper
        reached += quick.upper - quick.lower <= default_tolerance(quick.lower)
    assert reached >= 24


@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (4.0, 7), (1.0, 50), (10.0, 1000), (300.0, 10_000)])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2])
def test_against_the_gaussian_curve(noise: float, count: int, delta: float) -> None:
    """Rate 1: Gaussians compose to one Gaussian, whose epsilon `gdp` brackets to twelve digits."""
    exact_low, exact_high = gdp.epsilon_bounds(math.sqrt(count) / noise, delta)
    found = _by_contour([Release(1.0, noise, count)], Direction.REMOVAL, delta, default_tolerance)
    assert found.lower <= exact_high
    assert found.upper >= exact_low
    assert found.upper - found.lower <= (1e-5 * (1 + exact_high) if count > 1 else default_tolerance(exact_high))


def test_many_distinct_parts_are_the_product_of_each() -> None:
    """A hundred parts in batches, against the same parts one by one."""
    noise = np.linspace(0.7, 9.0, 100)[:, np.newaxis]
    many = Parts.whole(np.full_like(noise, 0.02), noise, np.arange(1.0, 101.0)[:, np.newaxis], Direction.REMOVAL)
    total = np.zeros(7, complex)
    for batch, nodes in rules(many, 6.0, 30.0, 25.0, 3):
        total += spectrum(batch, nodes, 5.0, 7)[0]
    single = np.zeros(7, complex)
    for row in range(100):
        one = many[np.array([row])]
        nodes = rule(one, 6.0, 30.0, 25.0, int(node_count(one, 6.0, 30.0, 25.0)[0]))
        single += spectrum(one, nodes, 5.0, 7)[0]
    assert np.abs(np.exp(total) - np.exp(single)).max() <= 1e-9


def test_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of many equal steps costs a few cheap estimates of many orders and one exact spectrum a direction."""
    calls = {"estimates": 0, "spectrum": 0}

    def counted(name: str, where: ModuleType) -> None:
        function = getattr(characteristic, name)

        def wrapper(*args: object) -> object:
            calls[name] += 1
            return function(*args)

        monkeypatch.setattr(where, name, wrapper)

    counted("estimates", inversion_plan)
    counted("spectrum", inversion)
    found = _by_contour([Release(256 / 60000, 1.1, 14062)], Direction.REMOVAL, 1e-5, default_tolerance)
    assert found.upper - found.lower < 1e-6
    assert calls["estimates"] <= 12
    assert calls["spectrum"] == 1


def test_beyond_reach_is_no_bound() -> None:
    """Counts at which phases mean nothing, and losses beyond floating point, give no bound instead of a wrong one."""
    for release in (Release(0.01, 1.0, 10**18), Release(0.5, 1e-160, 1), Release(1e-300, 1.0, 1)):
        found = _by_contour([release], Direction.REMOVAL, 1e-5, default_tolerance)
        assert found.lower == 0.0
        assert found.upper == math.inf


def by_hand(alias_order: float) -> Plan:
    return Plan(1.0, alias_order, epsilon=1.0, period=9.0, size=4, top=2.1, need=20.0, cut=0.0)


@pytest.mark.parametrize(
    ("count", "alias_order", "found"), [(100.0, 2.0, True), (1e15, 2.0, False), (100.0, 1e9, False)]
)
def test_no_inversion_where_errors_are_large_or_chernoff_takes_too_long(
    count: float, alias_order: float, found: bool
) -> None:
    some = parts(0.01, 1.0, count, Direction.REMOVAL)
    assert (inversion._invert(some, by_hand(alias_order)) is not None) == found


def test_a_frequency_at_which_nothing_is_left_counts_as_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose logarithm is replaced must not come out as large: the product would be infinite instead of zero."""
    monkeypatch.setattr(characteristic, "_LITTLE", 0.0)
    some = parts(0.01, 1.0, 3.0, Direction.REMOVAL)
    [(_, nodes)] = rules(some, 5.0, 0.0, 20.0)
    logs, _, _ = spectrum(some, replace(nodes, weight=np.zeros_like(nodes.weight)), 1.0, 2)
    assert np.all(np.exp(logs) == 0)


@pytest.mark.parametrize("direction", list(Direction))
def test_eighty_different_releases_in_both_ways(direction: Direction) -> None:
    """More than the grid transforms in full."""
    releases = [Release(0.01 + 0.001 * i, 1.0 + 0.05 * i, 1 + i % 3) for i in range(80)]
    quick = _by_contour(releases, direction, 1e-6, default_tolerance)
    grid = _by_grid(releases, direction, 1e-6, default_tolerance)
    assert max(quick.lower, grid.lower) <= min(quick.upper, grid.upper)
    for one in (quick, grid):
        assert one.upper - one.lower <= default_tolerance(one.upper)


def test_a_direction_that_counts_for_less_is_left_without_a_lower_bound() -> None:
    releases = [Release(0.01, 1.0, 100)]
    whole = _by_grid(releases, Direction.ADDITION, 1e-6, default_tolerance)
    enough = _by_grid(releases, Direction.ADDITION, 1e-6, default_tolerance, enough=2 * whole.upper)
    assert enough.lower == 0
    assert enough.upper >= whole.lower


@pytest.mark.parametrize("need", [3.0, 8.0])
def test_what_is_past_the_ends_is_part_of_the_error(need: float) -> None:
    """Beside the error of the step, 2.2 e^-need; the mass outside by a rule that reaches far further."""
    some = parts(0.2, 1.5, 1.0, Direction.REMOVAL)
    nodes, wide = (rule(some, 4.0, 0.0, far, 400) for far in (need, 40.0))
    outside = wide.weight[(wide.x < nodes.x[0, 0] - wide.step) | (wide.x > nodes.x[0, -1] + wide.step)].sum()
    assert outside > 0
    assert float(nodes.error[0, 0]) - 2.2 * math.exp(-need) >= outside


def test_the_mass_set_aside_is_rounded_up() -> None:
    some = parts(0.03, 0.8, 1.0, Direction.REMOVAL).without(1e-7)
    cut, spread = float(some.cut[0, 0]), math.hypot(0.8, float(some.width[0, 0]))
    with mp.workdps(30):
        exact = 0.03 * mp.ncdf((1 - mp.mpf(cut)) / spread) + (1 - mp.mpf(0.03)) * mp.ncdf(-mp.mpf(cut) / spread)
        assert exact < some.aside <= exact * (1 + mp.mpf(1e-8))


def test_without_an_upper_bound_there_is_no_lower_one() -> None:
    hopeless = inversion._Inversion(1.0, 2.0, 9.0, 0.0, 0.0, np.ones(1, complex), error=math.inf, alias=0.0, start=1.0)
    with np.errstate(all="ignore"):
        assert hopeless.crossings(1e-5, 0.0) == (0.0, math.inf)


def test_a_direction_that_chernoff_settles_is_not_inverted() -> None:
    """Ten multipliers, where adding costs less: the ceiling holds, and what is reported does not change."""
    releases = [Release(0.01, float(noise), 10) for noise in np.geomspace(10, 2.35, 10)]
    whole = _by_contour(releases, Direction.ADDITION, 1e-5, default_tolerance)
    other = _by_contour(releases, Direction.REMOVAL, 1e-5, default_tolerance)
    quick = _by_contour(releases, Direction.ADDITION, 1e-5, default_tolerance, other.lower)
    assert quick.lower == 0
    assert whole.upper <= quick.upper <= other.lower
    assert _by_contour(releases, Direction.ADDITION, 1e-5, default_tolerance, whole.lower) == whole
