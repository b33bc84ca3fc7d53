"""Each formula against the same formula at fifty digits: right, tight, and rounded to the side that it promises.

Optima are compared with a search of their own. What is checked against integrals and printed figures is in
`test_theories`, `test_published_numbers` and `test_reference`; classic and published formulas in
`test_formulas_published`.
"""

import math

import mpmath as mp
import numpy as np
import pytest

from discreet.accounting.answers import attack_risk
from discreet.accounting.answers.tradeoff import from_mu, from_pairs
from discreet.accounting.theories import basic_and_advanced, gdp, poisson_moments, rdp, zcdp
from discreet.core.errors import InputError

TIGHT = mp.mpf("1e-12")
NOISES = [0.3, 0.7, 1.1, 3.3, 17.9, 123.4]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def rounded_up(found: float, exact: mp.mpf, within: mp.mpf = TIGHT) -> None:
    assert exact <= found <= exact + within * abs(exact)


def normal(z: mp.mpf) -> mp.mpf:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    """Balle and Wang 2018, Theorem 8."""
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return normal(m / 2 - e / m) - mp.exp(e) * normal(-m / 2 - e / m)


def improved(order: mp.mpf, divergence: mp.mpf, delta: float) -> mp.mpf:
    """Canonne, Kamath, Steinke 2020, Proposition 12."""
    return divergence + mp.log(1 - 1 / order) - (mp.log(delta) + mp.log(order)) / (order - 1)


def improved_delta(order: mp.mpf, divergence: mp.mpf, epsilon: float) -> mp.mpf:
    return mp.exp((order - 1) * (divergence - epsilon)) / order * (1 - 1 / order) ** (order - 1)


def least(function, low: float, high: float) -> mp.mpf:
    """Minimum over the logarithm of the argument, by golden section at fifteen digits."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = math.log(low), math.log(high)
    for _ in range(80):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        if function(mp.exp(c)) <= function(mp.exp(d)):
            b = d
        else:
            a = c
    return function(mp.exp((a + b) / 2))


# Gaussian differential privacy


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0, 30.0])
def test_gaussian_profile_is_bracketed(mu: float) -> None:
    for epsilon in [0.0, *(mu * mu / 2 + mu * z for z in (-0.5, 0.5, 2.0, 6.0, 12.0, 25.0))]:
        if epsilon < 0:
            continue
        lower, upper = gdp.delta_bounds(mu, epsilon)
        exact = gaussian_delta(mu, epsilon)
        assert 0 <= lower <= exact <= upper <= 1
        near = normal(mp.mpf(mu) / 2 - mp.mpf(epsilon) / mu)  # what cancels
        assert upper - lower <= mp.mpf("1e-10") * near


def test_gaussian_profile_beyond_floating_point() -> None:
    for mu, epsilon in [(1.0, 1e4), (0.01, 30.0), (1e3, 1e8)]:
        lower, upper = gdp.delta_bounds(mu, epsilon)
        assert lower == 0
        assert gaussian_delta(mu, epsilon) <= upper <= 1e-299
    assert gdp.delta_bounds(1e3, 0.0)[1] == 1.0
    assert gdp.epsilon_bounds(math.inf, 1e-5) == (0.0, math.inf)
    assert gdp.epsilon_bounds(0.0, 1e-5) == (0.0, math.inf)
    assert gdp.epsilon_bounds(1e-9, 1e-5) == (0.0, 0.0)


def test_composed_mu_is_rounded_up() -> None:
    for count in (1, 3, 7919):
        pairs = [(noise, count + k) for k, noise in enumerate(NOISES)]
        exact = mp.sqrt(sum(times / mp.mpf(noise) ** 2 for noise, times in pairs))
        rounded_up(gdp.compose_mu(pairs), exact, mp.mpf("4e-15"))
        rounded_up(gdp.compose_mu(pairs[:1]), mp.sqrt(count) / mp.mpf("0.299999999999999988898"), mp.mpf("4e-15"))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 7.0, 300.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12])
def test_mu_of_a_budget_is_the_largest(epsilon: float, delta: float) -> None:
    mu = gdp.mu_for(epsilon, delta)
    slack = 1e-9 if epsilon > 0 or delta > 1e-6 else 0.02  # 1/2 less 1/2 has an error of 1e-14
    assert gaussian_delta(mu, epsilon) <= delta < gaussian_delta(mu * (1 + slack), epsilon)


def test_clt_formulas() -> None:
    exact = mp.sqrt(500 * mp.mpf(0.02) ** 2 * mp.expm1(1 / mp.mpf(0.8) ** 2) + 3 / mp.mpf(5) ** 2)
    assert gdp.clt_mu([(0.02, 0.8, 500), (1.0, 5.0, 3)]) == pytest.approx(float(exact), rel=1e-12)


# Rényi


def test_rdp_formulas_are_rounded_up() -> None:
    orders = [1.01, 1.7, 2.0, 9.5, 700.0]
    for noise in NOISES:
        for order, found in zip(orders, rdp.gaussian(noise, orders), strict=True):
            rounded_up(float(found), mp.mpf(order) / (2 * mp.mpf(noise) ** 2), mp.mpf("2e-10"))
    parts = [(lambda a, s=noise: np.asarray(a) / (2 * s * s), 10**k + 7) for k, noise in enumerate(NOISES)]
    for order, found in zip(orders, rdp.compose(parts)(orders), strict=True):
        exact = sum(count * mp.mpf(float(np.asarray(order) / (2 * s * s))) for s, (_, count) in zip(NOISES, parts))  # noqa: B905
        rounded_up(float(found), exact, mp.mpf("1e-13"))


@pytest.mark.parametrize("delta", [0.2, 1e-5, 1e-30])
def test_rdp_conversions_are_the_formulas(delta: float) -> None:
    orders, divergence = np.array([1.01, 1.5, 4.0, 90.0]), np.array([0.01, 0.4, 3.0, 50.0])
    for found, order, part in zip(rdp.improved(orders, divergence, delta), orders, divergence, strict=True):
        assert found == pytest.approx(float(improved(mp.mpf(order), mp.mpf(part), delta)), rel=1e-12)
    for found, order, part in zip(rdp.classic(orders, divergence, delta), orders, divergence, strict=True):
        assert found == pytest.approx(float(part - mp.log(delta) / (mp.mpf(order) - 1)), rel=1e-12)


def test_the_conversion_does_not_cancel_near_order_1() -> None:
    """Where both logarithms of the second term do, and what is left is the first, about -20."""
    for order, delta, limit in [
        (1.0000000077266096, 0.9999999999850702, 19.879973243257442),
        (1.000000007944334, 0.9999999896330938, 19.248042499675254),
    ]:
        exact = improved(mp.mpf(order), mp.mpf(limit), delta)
        found, _ = rdp.epsilon(lambda _, limit=limit: np.array([limit]), delta, orders=(order,), refine=False)
        assert exact <= found <= exact + mp.mpf("1e-9")


@pytest.mark.parametrize("rho", [1e-4, 0.02, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_best_order_is_found(rho: float, delta: float) -> None:
    curve = rdp.compose([(lambda orders: np.asarray(orders) * rho, 1)])
    exact = max(mp.mpf(0), least(lambda t: improved(1 + t, rho * (1 + t), delta), 1e-3, 2e3))
    found, order = rdp.epsilon(curve, delta)
    assert exact <= found <= exact * (1 + mp.mpf("1e-5")) + mp.mpf("1e-11")
    if found > 0 and order < 1023:
        at = improved(mp.mpf(order), rho * mp.mpf(order), delta)
        assert at <= found <= at * (1 + mp.mpf("1e-9")) + mp.mpf("1e-11")
    fixed, at_order = rdp.epsilon(curve, delta, orders=(3.0, 5.0, 9.0), refine=False)
    choices = {order: improved(mp.mpf(order), rho * mp.mpf(order), delta) for order in (3.0, 5.0, 9.0)}
    assert at_order == min(choices, key=lambda order: choices[order])
    assert fixed == pytest.approx(max(0.0, float(min(choices.values()))), rel=1e-9, abs=2e-12)
    for epsilon in (0.01, float(exact), 2 * float(exact) + 0.1):
        table = [improved_delta(mp.mpf(order), rho * mp.mpf(order), epsilon) for order in (3.0, 5.0, 9.0)]
        found = rdp.delta_upper(curve, epsilon, (3.0, 5.0, 9.0))
        assert min(1, min(table)) <= found <= min(table) * (1 + mp.mpf("2e-9")) + mp.mpf("2e-300")


def test_orders_that_fail() -> None:
    nothing = rdp.epsilon(lambda orders: np.full(len(orders), np.inf), 1e-5)
    assert nothing == (math.inf, math.inf)
    only_two = rdp.epsilon(lambda orders: np.where(np.asarray(orders) == 2, 0.1, np.nan), 1e-5)
    assert only_two[1] == 2
    assert only_two[0] == pytest.approx(float(improved(mp.mpf(2), mp.mpf("0.1"), 1e-5)), rel=1e-9)
    assert rdp.delta_upper(lambda orders: np.full(len(orders), np.nan), 1.0) == 1.0
    assert rdp.delta_upper(lambda orders: np.zeros(len(orders)), 1e9) <= 1e-299
    assert rdp.epsilon(lambda orders: np.zeros(len(orders)), 0.5)[0] == 0.0


@pytest.mark.parametrize("rate", [1e-7, 0.003, 0.2, 0.97])
@pytest.mark.parametrize("noise", [0.4, 1.0, 8.0, 60.0])
def test_sampled_moments_at_whole_orders_are_the_sum(rate: float, noise: float) -> None:
    """Mironov, Talwar, Zhang 2019, section 3.3, by both ways of the library, and through `rdp`."""
    q, s = mp.mpf(rate), mp.mpf(noise)
    columns = np.array([[rate]]), np.array([[noise]])
    moments = {}
    for order in (2, 3, 11, 60):
        moment = sum(
            mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(k * (k - 1) / (2 * s**2))
            for k in range(order + 1)
        )
        moments[order], exact = moment, mp.log(moment)
        assert float(poisson_moments.whole(*columns, order)[0]) == pytest.approx(float(exact), rel=1e-11)
        assert exact <= float(poisson_moments.quadrature(*columns, float(order))[0]) <= exact * (1 + mp.mpf("1e-10"))
        rounded_up(float(rdp.sampled_gaussian(rate, noise, [order])[0]), exact / (order - 1), mp.mpf("3e-10"))
    three = np.array([3.0, 3.0, 3.0])
    found = rdp.sampled_gaussians(np.full(3, rate), np.full(3, noise), three, [11])
    rounded_up(float(found[0]), 9 * mp.log(moments[11]) / 10, mp.mpf("3e-10"))
    assert poisson_moments.log_moment(rate, noise, 2.0) == poisson_moments.whole(*columns, 2)


@pytest.mark.parametrize(
    ("rate", "noise", "order"),
    [
        (1.4368373874073317e-281, 0.8893741387405809, 1024),
        (1.712377902050347e-232, 0.9674645838890239, 1000),
        (6.809519774711961e-223, 1.210429123984543, 1500),  # by quadrature
    ],
)
def test_terms_in_which_large_logarithms_cancel_are_rounded_up(rate: float, noise: float, order: int) -> None:
    q, half, ways, excess = mp.mpf(rate), 1 / (2 * mp.mpf(noise) ** 2), mp.mpf(order), mp.mpf(0)
    for k in range(2, order + 1):
        ways *= mp.mpf(order - k + 1) / k
        excess += ways * mp.exp((order - k) * mp.log1p(-q) + k * mp.log(q)) * mp.expm1(k * (k - 1) * half)
    exact = mp.log1p(excess) / (order - 1)
    assert exact <= float(rdp.sampled_gaussian(rate, noise, [order])[0]) <= exact * (1 + mp.mpf("1e-7"))


def test_amplification_of_what_would_overflow_is_rounded_up() -> None:
    for epsilon, rate in [(651.2459743843795, 0.9589481405374877), (686.9829062810337, 0.7539711527223375)]:
        exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
        rounded_up(basic_and_advanced.amplified(epsilon, 0.0, rate)[0], exact)


def test_a_trade_off_function_that_underflows_is_not_0() -> None:
    curve = from_mu(43.38386815214671)
    assert curve.upper(np.array([5.496404560903386e-06]))[0] > 0
    assert from_mu(0.1).power(np.array([5e-324]))[0] > 0


# Zero-concentrated


def test_rhos_are_rounded_up() -> None:
    for value in [*NOISES, 1e-3, 7e5]:
        rounded_up(zcdp.gaussian(value), 1 / (2 * mp.mpf(value) ** 2), mp.mpf("1e-14"))
        rounded_up(zcdp.pure(value), mp.mpf(value) ** 2 / 2, mp.mpf("1e-14"))
    rounded_up(zcdp.compose([0.1] * 10), 10 * mp.mpf(0.1), mp.mpf("1e-14"))


@pytest.mark.parametrize("rho", [1e-7, 1e-3, 0.3, 4.0, 900.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-15])
def test_zcdp_conversions(rho: float, delta: float) -> None:
    rounded_up(zcdp.epsilon_loose(rho, delta), rho + 2 * mp.sqrt(-rho * mp.log(delta)), mp.mpf("1e-14"))
    span = mp.sqrt(-mp.log(delta) / rho)
    exact = max(mp.mpf(0), least(lambda t: improved(1 + t, rho * (1 + t), delta), span / 200, span * 5))
    assert exact <= zcdp.epsilon(rho, delta) <= exact * (1 + mp.mpf("2e-5")) + mp.mpf("2e-12")
    if exact > 0:
        target = float(exact)
        largest = zcdp.rho_for(target, delta)
        assert zcdp.epsilon(largest, delta) <= target < zcdp.epsilon(largest * (1 + 1e-6), delta)
    budget = zcdp.rho_for_loose(2.5, delta)
    log = -mp.log(delta)
    exact = (mp.sqrt(mp.mpf("2.5") + log) - mp.sqrt(log)) ** 2
    assert exact * (1 - mp.mpf("2e-14")) <= budget <= exact


# Meaning


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 0.03])
def test_meaning_is_rounded_for_the_adversary(epsilon: float, delta: float) -> None:
    risk = attack_risk.from_budget(epsilon, delta)
    e, d = mp.exp(mp.mpf(epsilon)), mp.mpf(delta)
    rounded_up(risk.advantage, (e - 1 + 2 * d) / (e + 1))
    for share in (1e-6, 0.02, 0.3, 0.8, 0.999):
        x = mp.mpf(share)
        exact = min(mp.mpf(1), d + e * x, 1 - (1 - d - x) / e)
        rounded_up(risk.true_positive_rate(share), exact)
        for prior in (0.01, 0.6):
            bayes = prior * exact / (prior * exact + (1 - mp.mpf(prior)) * x)
            assert risk.posterior(prior, share) == pytest.approx(float(bayes), rel=1e-9)
    rounded_up(attack_risk.posterior_without_delta(epsilon, 0.2), mp.mpf(0.2) * e / (1 - mp.mpf(0.2) + mp.mpf(0.2) * e))
    with pytest.raises(InputError, match="epsilon"):
        attack_risk.posterior_without_delta(-0.1, 0.2)
    with pytest.raises(InputError, match="prior"):
        risk.posterior(1.0, 0.2)


def risk_of(profile: dict[float, float]) -> attack_risk.Risk:
    return attack_risk.Risk(from_pairs(np.array(list(profile)), np.array(list(profile.values()))))


def test_a_profile_is_as_sharp_as_its_sharpest_point() -> None:
    profile = {0.0: 0.3, 1.0: 0.05, 4.0: 1e-6}
    risk = risk_of(profile)
    single = [risk_of({epsilon: delta}) for epsilon, delta in profile.items()]
    assert risk.advantage == pytest.approx(min(one.advantage for one in single), rel=1e-12)
    blunt = risk_of({0.0: 0.2, 5.0: 0.01})
    assert blunt.true_positive_rate(0.5) == pytest.approx(0.7)  # the advantage of the one, beyond the tail of the other
    for share in (1e-7, 0.01, 0.2, 0.6):
        best = min(one.true_positive_rate(share) for one in single)
        assert risk.true_positive_rate(share) == pytest.approx(best, rel=1e-12)
    assert risk_of({0.1: 5.0}).true_positive_rate(0.1) == 1.0
    hopeless = attack_risk.from_budget(1e6, 1e-9)
    assert (hopeless.advantage, hopeless.true_positive_rate(0.5)) == (1.0, 1.0)
    assert attack_risk.posterior_without_delta(1e4, 0.3) == attack_risk.from_mu(100.0).advantage == 1.0
    rounded_up(attack_risk.from_mu(1.3).advantage, 2 * normal(mp.mpf(1.3) / 2) - 1)
