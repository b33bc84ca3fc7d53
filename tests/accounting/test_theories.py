"""Each theory against closed forms and fifty digits."""

import math

import mpmath as mp
import numpy as np
import pytest

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.theories import basic_and_advanced, gdp, poisson_moments, rdp, zcdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Gaussian, Laplace, Poisson, Repeat

mp.mp.dps = 50


def exact_log_moment(rate: float, noise: float, order: float) -> mp.mpf:
    """log E_Q[(P/Q)^order] by mpmath's own quadrature of the definition, less what integrates to 1."""
    q, s, a = mp.mpf(rate), mp.mpf(noise), mp.mpf(order)

    def excess(x: mp.mpf) -> mp.mpf:
        t = q * mp.expm1((2 * x - 1) / (2 * s**2))
        return mp.npdf(x, 0, s) * ((1 + t) ** a - 1 - a * t)

    pieces = mp.linspace(-14 * s, order + 14 * s, 80)
    found, error = mp.quad(excess, pieces, method="gauss-legendre", maxdegree=4, error=True)
    assert error <= mp.mpf("1e-14") * found
    return mp.log1p(found)


@pytest.mark.parametrize(
    ("rate", "noise", "order"),
    [
        (0.01, 1.0, 1.01),
        (0.01, 1.0, 1.5),
        (256 / 60000, 0.5, 2.7),
        (1e-9, 3.0, 1.2),
        (0.3, 0.2, 4.4),
        (0.5, 10.0, 64.3),
        (0.999, 1.0, 1.25),
        (1e-4, 50.0, 9.7),
        (0.9, 200.0, 700.5),
        (1e-6, 0.3, 3.3),
    ],
)
def test_sampled_gaussian_at_fractional_orders(rate: float, noise: float, order: float) -> None:
    exact = exact_log_moment(rate, noise, order)
    found = poisson_moments.log_moment(rate, noise, order)[0]
    assert exact <= found <= exact * (1 + mp.mpf("1e-10"))
    bound = float(rdp.sampled_gaussian(rate, noise, [order])[0])
    assert exact <= bound * (order - 1) <= exact * (1 + mp.mpf("3e-10"))


@pytest.mark.parametrize("order", [2, 3, 17, 64, 250])
@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.2, 5.0), (1e-9, 2.0), (0.99, 0.7), (1e-100, 1.0)])
def test_two_ways_at_whole_orders(rate: float, noise: float, order: int) -> None:
    """The finite sum and the quadrature share nothing but the definition."""
    q, s = np.array([[rate]]), np.array([[noise]])
    assert poisson_moments.quadrature(q, s, float(order)) == pytest.approx(
        poisson_moments.whole(q, s, order), rel=2e-11
    )


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.3, 3.0), (0.005, 0.5)])
def test_log_moments_are_convex_and_rdp_increases(rate: float, noise: float) -> None:
    orders = np.linspace(1.05, 12, 60)
    moments = np.array([poisson_moments.log_moment(rate, noise, float(order))[0] for order in orders])
    assert np.all(np.diff(moments, 2) > -1e-12 * moments[2:])
    assert np.all(np.diff(moments / (orders - 1)) > 0)


def test_moments_of_many_releases_are_those_of_each() -> None:
    rng = np.random.default_rng(3)
    rates, noises = 10 ** rng.uniform(-5, -0.05, 70), 10 ** rng.uniform(-0.6, 2, 70)
    for order in (1.01, 2.0, 7.5, 300.0):
        together = poisson_moments.log_moment(rates, noises, order)
        alone = [poisson_moments.log_moment(rate, noise, order)[0] for rate, noise in zip(rates, noises, strict=True)]
        assert together == pytest.approx(alone, rel=1e-10)


def test_moments_at_many_orders_are_those_at_each() -> None:
    """Also beside orders and releases that need far more points, or fail."""
    orders = np.array([1.01, 1.5, 2.0, 7.5, 50.5, 64.0, 300.0, 700.5, math.inf])
    for rate, noise in ((0.01, 1.0), (0.3, 20.0), (0.5, 0.01)):
        together = poisson_moments.log_moment(rate, noise, orders)
        alone = [poisson_moments.log_moment(rate, noise, order)[0] for order in orders]
        assert together == pytest.approx(alone, rel=1e-10)
        assert together[-1] == math.inf
    assert not np.isfinite(together[4])
    assert np.isfinite(together[:4]).all()


def test_a_quadrature_that_would_need_too_many_points_fails_closed() -> None:
    assert poisson_moments.log_moment(0.5, 1e-4, 50.5)[0] == math.inf


@pytest.mark.parametrize("order", [1.001, 1.01, 1.5, 2, 7.3, 33.3, 100, 1000])
@pytest.mark.parametrize("epsilon", [1e-7, 1e-5, 1e-3, 0.02, 0.4, 1.0, 5.0, 40.0, 300.0])
def test_laplace_is_its_closed_form_rounded_up(order: float, epsilon: float) -> None:
    """Mironov 2017, Proposition 6, at fifty digits (the closed form is checked by integration at one point below)."""
    a, e = mp.mpf(order), mp.mpf(epsilon)
    exact = mp.log(a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)) / (a - 1)
    found = float(rdp.laplace(epsilon, [order])[0])
    rounding = exact * mp.mpf("3e-10") + mp.mpf("1e-15") * e / (a - 1) + mp.mpf("1e-20")
    assert exact <= found <= exact + rounding
    assert found <= epsilon * (1 + 1e-9)


def test_laplace_by_integration() -> None:
    def ratio(x: mp.mpf) -> mp.mpf:
        return mp.exp(-abs(x)) / 2 * mp.exp(3 * (abs(x) - abs(x - mp.mpf("0.7"))))

    integral = mp.quad(ratio, [-60, 0, mp.mpf("0.7"), 60])
    assert float(rdp.laplace(0.7, [3.0])[0]) == pytest.approx(float(mp.log(integral) / 2), rel=1e-9)


def test_laplace_over_several_numbers_costs_no_more_than_over_one() -> None:
    """The curve is convex in epsilon and 0 at 0: moves of 0.3 and 0.7 cost at most what a move of 1 does."""
    for order in (1.1, 2.0, 10.0):
        parts = sum(float(rdp.laplace(move, [order])[0]) for move in (0.3, 0.7))
        assert parts <= float(rdp.laplace(1.0, [order])[0])


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
def test_conversions(delta: float) -> None:
    curve = rdp.compose([(lambda orders: rdp.gaussian(2.0, orders), 10)])
    loose, order = rdp.epsilon(curve, delta, rdp.classic)
    rho = 10 / 8
    assert loose == pytest.approx(
        rho + 2 * math.sqrt(rho * math.log(1 / delta)), rel=1e-6
    )  # closed form of the minimum
    assert order == pytest.approx(1 + math.sqrt(math.log(1 / delta) / rho), rel=2e-2)
    tight, _ = rdp.epsilon(curve, delta)
    exact = gdp.epsilon_bounds(math.sqrt(10) / 2, delta)
    assert exact[0] <= tight < loose
    assert rdp.delta_upper(curve, tight) <= 1.05 * delta
    grid_only, at = rdp.epsilon(curve, delta, orders=(2, 4, 8), refine=False)
    assert at in (2, 4, 8)
    assert grid_only >= tight


def test_zcdp() -> None:
    assert zcdp.gaussian(2.0) == pytest.approx(0.125)
    assert zcdp.pure(0.5) == pytest.approx(0.125)
    assert zcdp.compose([0.125, 0.25]) == pytest.approx(0.375)
    for rho in (1e-6, 0.01, 1.0, 50.0):
        for delta in (1e-3, 1e-6):
            exact = gdp.epsilon_bounds(math.sqrt(2 * rho), delta)[0]  # a Gaussian has this rho, so this is a floor
            tight = zcdp.epsilon(rho, delta)
            assert exact <= tight <= zcdp.epsilon_loose(rho, delta)
            if tight > 0:
                assert zcdp.rho_for(tight, delta) == pytest.approx(rho, rel=1e-4)
            assert zcdp.epsilon_loose(zcdp.rho_for_loose(2.0, delta), delta) == pytest.approx(2.0, rel=1e-9)
    assert zcdp.epsilon(0.0, 1e-5) == 0
    assert zcdp.epsilon(math.inf, 1e-5) == math.inf


@pytest.mark.parametrize("mu", [1e-3, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 4.0])
def test_mu_both_ways(mu: float, epsilon: float) -> None:
    lower, upper = gdp.delta_bounds(mu, epsilon)
    if lower > 1e-250 and upper < 1 - 1e-9:
        assert gdp.mu_for(epsilon, upper) == pytest.approx(mu, rel=1e-6)
        assert gdp.delta_bounds(gdp.mu_for(epsilon, upper), epsilon)[1] <= upper


def test_clt_inverts() -> None:
    mu = gdp.clt_mu([(0.01, 1.3, 1000)])
    assert mu == pytest.approx(0.01 * math.sqrt(1000 * math.expm1(1 / 1.69)))
    assert gdp.clt_noise(mu, 0.01, 1000) == pytest.approx(1.3)
    assert gdp.clt_noise(gdp.clt_mu([(1.0, 1.3, 1000)]), 1.0, 1000) == pytest.approx(1.3)


def test_classic_composition() -> None:
    pairs = [(0.1, 10), (0.2, 5)]
    assert basic_and_advanced.basic(pairs) == pytest.approx(2.0)
    spread = math.sqrt(2 * math.log(1e6) * (10 * 0.01 + 5 * 0.04))
    assert basic_and_advanced.advanced(pairs, 1e-6) == pytest.approx(spread + math.expm1(0.1) + math.expm1(0.2))
    assert basic_and_advanced.optimised(pairs, 1e-6) == pytest.approx(spread + math.tanh(0.05) + math.tanh(0.1))
    assert basic_and_advanced.amplified(math.log(3), 0.1, 0.5) == (pytest.approx(math.log(2)), 0.05)
    assert basic_and_advanced.amplified(1000.0, 0.1, 0.5)[0] == pytest.approx(1000 + math.log(0.5))
    assert basic_and_advanced.amplified(2.0, 0.1, 1.0) == (2.0, 0.1)
    assert basic_and_advanced.advanced([(800.0, 1)], 1e-6) == math.inf


@pytest.mark.parametrize("steps", [1, 30, 3000])
def test_classic_theorems_are_ordered_and_above_the_truth(steps: int) -> None:
    event = Repeat(Poisson(0.02, Gaussian(2.0)), steps)
    pld, advanced, basic = (guarantee(event, 1e-5, method=m) for m in (Method.PLD, Method.ADVANCED, Method.BASIC))
    assert pld.lower is not None
    assert pld.lower <= advanced.epsilon <= basic.epsilon


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_one_laplace_release_is_pure(adjacency: Adjacency) -> None:
    ratio = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    for method in (Method.BASIC, Method.ADVANCED):
        assert guarantee(Laplace(4.0), 1e-5, adjacency, method).epsilon == pytest.approx(ratio / 4)
    both = Compose((Laplace(4.0), Gaussian(2.0)))
    alone = guarantee(Gaussian(2.0), 1e-5, adjacency, Method.RDP).epsilon
    assert alone < guarantee(both, 1e-5, adjacency, Method.RDP).epsilon < alone + ratio / 4 + 0.01


@pytest.mark.parametrize("other", [None, 3, "Gaussian", Gaussian])
def test_what_is_no_event_is_said_to_be_none(other: object) -> None:
    for ask in (guarantee, account):
        with pytest.raises(
            InputError, match=r"^event must be an event such as Poisson\(rate, Gaussian\(noise\)\), got "
        ):
            ask(other, 1e-5)
