"""Batches of fixed size under replace-one: profiles, tiny exact mechanisms, mpmath, dp-accounting, the papers."""

import math
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import rdp_privacy_accountant

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.pld.discretise import LossPmf, optimistic, pessimistic
from discreet.accounting.pld.epsilon_interval import Release, epsilon_interval
from discreet.accounting.pld.fixed_size_pair import SymmetricPair
from discreet.accounting.pld.poisson_pair import Direction
from discreet.accounting.pld.replacement_interval import symmetrised_interval
from discreet.accounting.theories import gdp, rdp, without_replacement
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.events import FixedSize, Gaussian, Poisson, Repeat

PAIRS = [(0.01, 0.9), (0.3, 0.4), (0.5, 3.0), (1e-4, 0.6), (0.99, 20.0), (1.0, 1.5)]


def pair(rate: float, noise: float) -> SymmetricPair:
    return SymmetricPair(rate, noise, Direction.REMOVAL)


def removal(rate: float, noise: float, epsilon: float) -> mp.mpf:
    """The hockey stick of (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), for epsilon >= 0."""
    q, s, e = mp.mpf(rate), mp.mpf(noise), mp.mpf(epsilon)
    x = s**2 * mp.log((mp.exp(e) - (1 - q)) / q) + mp.mpf(1) / 2
    null, shifted = mp.erfc(x / s / mp.sqrt(2)) / 2, mp.erfc((x - 1) / s / mp.sqrt(2)) / 2
    return (1 - q) * null + q * shifted - mp.exp(e) * null


def profile(rate: float, noise: float, epsilon: float) -> mp.mpf:
    """That of C_q(f): removal's for epsilon >= 0, and its mirror image, since the curve is its own inverse."""
    if epsilon >= 0:
        return removal(rate, noise, epsilon)
    return 1 - mp.exp(epsilon) + mp.exp(epsilon) * removal(rate, noise, -epsilon)


def of(pmf: LossPmf, epsilon: float) -> mp.mpf:
    pairs = zip(pmf.masses, pmf.losses, strict=True)
    gains = [mp.mpf(float(mass)) * max(0, 1 - mp.exp(mp.mpf(epsilon) - float(loss))) for mass, loss in pairs]
    return mp.fsum(gains) + float(pmf.infinity)


@pytest.mark.parametrize(("rate", "noise"), PAIRS)
def test_discretised_curves_enclose_the_symmetrised_profile(rate: float, noise: float) -> None:
    """At 40 digits, against the profile of Dong, Roth, Su 2019, Theorem 4.2, on both sides of its kink at 0."""
    with mp.workdps(40):
        top = float(SymmetricPair(rate, noise, Direction.REMOVAL).loss(np.array([5 * noise]))[0])
        grid = top / 150
        up, down = (discretise(pair(rate, noise), grid, 1e-18) for discretise in (pessimistic, optimistic))
        for share in (-1.5, -0.71, -0.2, -0.01, 0.0, 1e-3, 0.03, 0.4, 0.9):
            exact = profile(rate, noise, share * top)
            assert of(down, share * top - float(down.slack)) <= exact + mp.mpf(10) ** -25
            assert exact <= of(up, share * top - float(up.slack))
            assert of(up, share * top) - of(down, share * top) <= 0.05 * grid  # second order


@pytest.mark.parametrize(("rate", "noise"), PAIRS)
def test_removal_is_the_larger_profile_above_zero_and_addition_below(rate: float, noise: float) -> None:
    """What the construction rests on, at 40 digits: the maximum of the two is removal's exactly for epsilon >= 0."""
    with mp.workdps(40):
        q, s = mp.mpf(rate), mp.mpf(noise)
        for loss in (1e-3, 0.1, 0.5, 1.0, 2.0):
            epsilon = min(loss / noise, -0.999 * math.log1p(-rate)) if rate < 1 else loss
            x = s**2 * mp.log((mp.exp(-epsilon) - (1 - q)) / q) + mp.mpf(1) / 2
            null, shifted = mp.ncdf(x / s), mp.ncdf((x - 1) / s)
            addition = null - mp.exp(epsilon) * ((1 - q) * null + q * shifted)
            slack = mp.mpf(10) ** -30
            assert addition <= removal(rate, noise, epsilon) + slack
            mirrored = 1 - mp.exp(-epsilon) + mp.exp(-epsilon) * addition  # removal's profile at -epsilon
            assert mirrored <= profile(rate, noise, -epsilon) + slack


@pytest.mark.parametrize(("rate", "noise"), PAIRS)
def test_masses_are_two_probability_distributions(rate: float, noise: float) -> None:
    cut = pair(rate, noise).bins(np.linspace(-60 / noise, 60 / noise, 4001))
    beyond = cut.above + cut.below
    assert float(cut.p.sum()) + float(beyond) == pytest.approx(1.0, abs=1e-12)
    assert float(cut.q.sum()) <= 1 + 1e-12
    with np.errstate(divide="ignore"):
        level = float(pair(rate, noise).level)
    assert level == pytest.approx((1 - rate) * (1 - 2 * float(mp.ncdf(-1 / (2 * mp.mpf(noise))))), rel=1e-12)


@pytest.mark.parametrize(("rate", "noise", "count"), [(0.1, 1.0, 3), (0.4, 2.0, 8), (0.02, 0.8, 5), (1.0, 5.0, 20)])
def test_composition_against_convolution_of_the_profile(rate: float, noise: float, count: int) -> None:
    """Masses read off the profile itself ("connect the dots"), convolved directly in long double."""
    found, grid = symmetrised_interval([Release(rate, noise, count)], 1e-5, lambda e: 1e-3 * (1 + e)), 8e-3
    top = math.ceil(float(pair(rate, noise).loss(np.array([6 * noise + 1]))[0]) / grid)
    with mp.workdps(30):
        deltas = np.array([float(profile(rate, noise, i * grid)) for i in range(-top, top + 1)], np.longdouble)
    points = np.exp(np.arange(-top, top + 1) * np.longdouble(grid))
    slopes = np.concatenate([[-1.0], np.diff(deltas) / np.diff(points), [0.0]])
    masses = np.maximum(np.diff(slopes) * points, 0)
    total = np.ones(1, np.longdouble)
    for _ in range(count):
        total = np.convolve(total, masses)
    losses = (np.arange(len(total)) - count * top) * np.longdouble(grid)

    def delta(epsilon: float) -> float:
        keep = losses > epsilon
        return float(np.sum(total[keep] * -np.expm1(epsilon - losses[keep])))

    assert delta(found.upper) <= 1e-5 * (1 + 5e-3)
    assert delta(found.upper - 4e-3 * (1 + found.upper)) > 1e-5


class Tiny:
    """Three records with contributions in [-1, 1], one drawn per step, Gaussian noise: everything by quadrature.

    Two data sets that differ in the first record: the densities of their outputs on a grid, over one or two steps.
    """

    def __init__(self, noise: float, ours: tuple[float, ...], theirs: tuple[float, ...], steps: int) -> None:
        self.x = np.linspace(-1 - 9 * noise, 1 + 9 * noise, 1201)
        p, q = (self.density(noise, records) for records in (ours, theirs))
        cell = float(self.x[1] - self.x[0])
        self.p = p * cell if steps == 1 else np.outer(p, p) * cell**2
        self.q = q * cell if steps == 1 else np.outer(q, q) * cell**2

    def density(self, noise: float, records: tuple[float, ...]) -> Array:
        parts = [np.exp(-0.5 * ((self.x - record) / noise) ** 2) for record in records]
        result: Array = np.mean(parts, axis=0) / (noise * math.sqrt(2 * math.pi))
        return result

    def delta(self, epsilon: float) -> float:
        forth, back = self.p - math.exp(epsilon) * self.q, self.q - math.exp(epsilon) * self.p
        return float(max(np.maximum(forth, 0).sum(), np.maximum(back, 0).sum()))

    def moment(self, order: int) -> float:
        return float(math.log(np.sum((self.p / self.q) ** order * self.q)) / (order - 1))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_no_tiny_mechanism_exceeds_its_bounds_and_one_attains_the_lower(noise: float, steps: int) -> None:
    generator = np.random.default_rng(1)
    draws = [tuple(generator.choice([-1.0, 1.0, generator.uniform(-1, 1)], 4)) for _ in range(12)]
    event = Repeat(FixedSize(3, 1, Gaussian(noise)), steps)
    for delta in (1e-2, 1e-4):
        found = guarantee(event, delta, Adjacency.REPLACE_ONE)
        worst = Tiny(noise, (1.0, -1.0, -1.0), (-1.0, -1.0, -1.0), steps)
        assert found.lower is not None
        assert worst.delta(found.lower) >= delta * (1 - 1e-4)  # the sum over outcomes is right to about 6e-5
        assert worst.delta(found.epsilon) <= delta
        for one, two, three, other in draws:
            tiny = Tiny(noise, (one, two, three), (other, two, three), steps)
            assert tiny.delta(found.epsilon) <= delta
            if steps == 1:
                bound = without_replacement.rdp(1 / 3, noise / 2, [2, 3, 8])
                assert all(tiny.moment(order) <= float(b) for order, b in zip((2, 3, 8), bound, strict=True))


@lru_cache
def powers(noise: float) -> list[mp.mpf]:
    """exp(i (i - 1) / (2 s^2)), in digits enough for what cancels."""
    with mp.workdps(600):
        step, found, factor = mp.exp(1 / mp.mpf(noise) ** 2), [mp.mpf(1)], mp.mpf(1)
        for _ in range(256):
            found.append(found[-1] * factor)
            factor *= step
        return found


@lru_cache
def even_moment(noise: float, length: int) -> mp.mpf:
    """log B(l) by its alternating sum."""
    with mp.workdps(600):
        terms = zip(range(length + 1), powers(noise), strict=False)
        return +mp.log(mp.fsum((-1) ** i * math.comb(length, i) * power for i, power in terms))


@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0, 2.5, 7.0, 20.0, 50.0])
def test_even_moments_against_the_sum_in_many_digits(noise: float) -> None:
    for length in (2, 4, 6, 16, 50, 128, 256):
        exact = even_moment(noise, length)
        excess = without_replacement.log_even_moment(noise, length) - exact
        with mp.workdps(100):
            assert 0 <= excess <= mp.mpf("1e-11") * max(1, abs(exact))


@pytest.mark.parametrize("order", [2, 3, 10, 57, 256])
@pytest.mark.parametrize("noise", [0.3, 4.0, 50.0])
def test_the_bound_of_wang_against_a_hundred_digits(noise: float, order: int) -> None:
    """Theorem 9 (strengthened for Gaussians) of Wang, Balle, Kasiviswanathan 2019, term by term in mpmath."""
    with mp.workdps(100):
        v = 1 / mp.mpf(noise) ** 2
        chi = []
        for j in range(2, order + 1):
            binary = 4 * mp.exp((even_moment(noise, 2 * (j // 2)) + even_moment(noise, 2 * ((j + 1) // 2))) / 2)
            chi.append(math.comb(order, j) * min(binary, 2 * mp.exp(j * (j - 1) * v / 2)))
        for rate in (1e-5, 0.01, 0.5):
            total = 1 + mp.fsum(mp.mpf(rate) ** j * term for j, term in enumerate(chi, 2))
            exact = min(mp.log(total), order * (order - 1) * v / 2) / (order - 1)
            found = mp.mpf(float(without_replacement.rdp(rate, noise, [order])[0]))
            assert exact <= found <= exact * (1 + mp.mpf("1e-9"))


@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_renyi_bounds_against_dp_accounting(noise: float) -> None:
    """Fractional orders included, in a range where its forward differences are stable. The noise is relative there."""
    orders = [1.5, 2, 3, 4.25, 8, 13.5, 20]
    accountant = rdp_privacy_accountant.RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(1000, 20, dp_event.GaussianDpEvent(noise)), 10)
    found = 10 * without_replacement.rdp(0.02, noise, orders)
    for mine, theirs in zip(found, accountant.rdp, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6) or mine < theirs  # theirs lacks the bound without sampling


def test_between_whole_orders_convexity_alone_is_used_and_beyond_the_largest_no_sampling() -> None:
    low, middle, high = without_replacement.rdp(0.1, 1.0, [4, 4.25, 5])
    assert 3.25 * middle == pytest.approx(0.75 * 3 * low + 0.25 * 4 * high, rel=1e-9)
    assert 0.5 * float(without_replacement.rdp(0.1, 1.0, [1.5])[0]) == pytest.approx(
        0.5 * float(without_replacement.rdp(0.1, 1.0, [2])[0]), rel=1e-9
    )
    beyond = without_replacement.LARGEST + 0.5
    assert float(without_replacement.rdp(0.1, 1.0, [beyond])[0]) == pytest.approx(beyond / 2)


STEPS = 1800


def fixed(noise: float) -> Repeat:
    return Repeat(FixedSize(60000, 600, Gaussian(noise)), STEPS)


def test_the_figures_of_adadp() -> None:
    """Xu et al. 2019 at L = 600, N = 60000, 1800 steps: 4.008 is Poisson's; theirs is 6.92 at order 4, or 61."""
    poisson = account(Repeat(Poisson(0.01, Gaussian(0.9)), STEPS), 1e-5, method=Method.MOMENTS)
    meant = account(fixed(1.8), 1e-5, Adjacency.REPLACE_ONE, Method.MOMENTS)
    literal = account(fixed(0.9), 1e-5, Adjacency.REPLACE_ONE, Method.MOMENTS)
    assert round(poisson.epsilon, 3) == 4.008
    assert round(meant.epsilon, 2) == 6.92
    assert round(literal.epsilon) == 61
    assert {meant.kind, literal.kind} == {"as_published"}
    curve = rdp.compose([(lambda orders: without_replacement.rdp(0.01, 0.9, orders, as_stated=True), STEPS)])
    assert rdp.epsilon(curve, 1e-5, rdp.classic, orders=(2, 3, 4, 5, 6), refine=False)[1] == 4
    proved = guarantee(fixed(1.8), 1e-5, Adjacency.REPLACE_ONE, Method.RDP)
    assert proved.epsilon < meant.epsilon


def test_symmetrised_before_composing_costs_more_than_one_sided() -> None:
    found = guarantee(fixed(1.8), 1e-5, Adjacency.REPLACE_ONE)
    assert found.epsilon == pytest.approx(3.760, abs=2e-3)
    assert found.lower is not None
    one_sided = epsilon_interval([Release(0.01, 0.9, STEPS)], 1e-5)
    assert one_sided.lower - 5e-5 <= 3.0636 <= one_sided.upper + 5e-5  # as printed, four digits
    assert found.lower == pytest.approx(one_sided.lower)
    assert found.epsilon < guarantee(fixed(1.8), 1e-5, Adjacency.REPLACE_ONE, Method.RDP).epsilon


def test_adadp_as_printed() -> None:
    """Theorem 1 as printed, from its alternating sum in mpmath: another number than the theorem that was meant."""
    with mp.workdps(60):

        def b(length: int) -> mp.mpf:
            c = mp.mpf(length) / (2 * mp.mpf("0.9") ** 2)
            return mp.fsum((-1) ** i * mp.binomial(length, i) * mp.exp((i - 1) * c) for i in range(length + 1))

        values = []
        for order in range(2, 12):
            first = min(4 * mp.expm1(1 / mp.mpf("0.81")), 2 * mp.exp(1 / mp.mpf("0.81")))
            total = 1 + mp.mpf("1e-4") * mp.binomial(order, 2) * first
            for j in range(3, order + 1):
                root = mp.sqrt(b(2 * (j // 2)) * b(2 * ((j + 1) // 2)))
                total += 4 * mp.mpf("0.01") ** j * mp.binomial(order, j) * root
            values.append((STEPS * mp.log(total) + mp.log(1e5)) / (order - 1))
        found = account(fixed(1.8), 1e-5, Adjacency.REPLACE_ONE, Method.ADADP)
        assert found.kind == "as_published"
        assert found.epsilon == pytest.approx(float(min(values)), rel=1e-9)


def test_the_limit_is_that_of_the_symmetrised_curve() -> None:
    """Dong, Roth, Su 2019, Corollary 5.4, in mpmath, and near the exact figure for many steps."""
    noise, rate, steps = 4.0, 0.01, 20_000
    with mp.workdps(40):
        v = 1 / mp.mpf(noise)
        inside = mp.exp(v**2) * mp.ncdf(3 * v / 2) + 3 * mp.ncdf(-v / 2) - 2
        exact = mp.sqrt(2) * rate * mp.sqrt(steps) * mp.sqrt(inside)
    mu = gdp.clt_mu_fixed_size([(rate, noise, steps)])
    assert mu == pytest.approx(float(exact), rel=1e-9)
    found = symmetrised_interval([Release(rate, noise, steps)], 1e-5)
    assert gdp.epsilon_bounds(mu, 1e-5)[1] == pytest.approx(found.upper, rel=0.01)


@pytest.mark.parametrize(("noise", "steps"), [(1e-3, 1), (2e8, 1_000_000), (0.05, 1000)])
def test_what_is_beyond_the_grid_costs_at_most_what_it_would_without_sampling(noise: float, steps: int) -> None:
    event = Repeat(FixedSize(10**9, 1, Gaussian(noise)), steps)
    plain = gdp.epsilon_bounds(2 * math.sqrt(steps) / noise, 1e-9)[1]
    for method in (Method.PLD, Method.RDP):
        found = guarantee(event, 1e-9, Adjacency.REPLACE_ONE, method)
        assert found.epsilon <= plain * 1.2 + 0.1
        assert found.epsilon >= 0


def test_even_moments_of_tiny_noise_are_bounded_from_above() -> None:
    for noise, length in ((1e-3, 2), (1e-3, 256), (0.01, 64)):
        exact = mp.mpf(length) * (length - 1) / (2 * mp.mpf(noise) ** 2)  # the leading term of the sum, to 1e-40
        assert exact <= without_replacement.log_even_moment(noise, length) <= exact * (1 + 1e-9)
