"""Trade-off functions: closed forms, duality, brackets, groups, one number for a curve."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy import stats
from tilting import delta_of

from discreet.accounting.account import guarantee
from discreet.accounting.answers.covering_mu import corners, covering_mu
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import (
    GaussianTradeOff,
    PolygonalTradeOff,
    TradeOff,
    from_mu,
    from_pairs,
    polygonal,
)
from discreet.accounting.pld import delta_profile
from discreet.accounting.pld.epsilon_interval import Release
from discreet.accounting.theories import gdp
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Laplace, Poisson, Repeat

SHARES = np.concatenate(([0.0], np.logspace(-9, -1, 30), np.linspace(0.11, 0.999, 60), [1 - 1e-6, 1.0]))
ROW_2 = (256 / 60000, 1.1, 14062)  # Bu et al. 2020, Table 1


def sampled(rate: float, noise: float, steps: int) -> Event:
    return Repeat(Poisson(rate, Gaussian(noise)), steps)


def gaussian_by_pld(noise: float, steps: int) -> PolygonalTradeOff:
    """The curve of unsampled Gaussians by way of their privacy-loss distribution, which `trade_off` does not need."""
    found = delta_profile.whole_profile([Release(1.0, noise, steps)])
    return polygonal(found.epsilons, found.deltas, found.false_positives, found.true_positives)


def g(mu: float, shares: Array = SHARES) -> Array:
    result: Array = stats.norm.cdf(-stats.norm.ppf(shares) - mu)
    return result


def brackets(curve: TradeOff, exact: Array, width: float, shares: Array = SHARES) -> None:
    """`lower` <= `exact` <= `upper`, no further apart than `width`; the slack is scipy's own rounding."""
    low, high = curve.lower(shares), curve.upper(shares)
    assert np.all(low <= exact + 1e-13)
    assert np.all(exact <= high + 1e-13)
    assert np.max(high - low) <= width
    assert curve.power(shares) == pytest.approx(1 - low, abs=1e-12)


@pytest.mark.parametrize(("noise", "steps"), [(3.0, 9), (2.0, 1), (10.0, 3), (0.6, 4)])
def test_gaussians_without_sampling_are_g_mu(noise: float, steps: int) -> None:
    mu = math.sqrt(steps) / noise
    brackets(gaussian_by_pld(noise, steps), g(mu), 5e-4)
    exact = trade_off(
        Compose((Repeat(Gaussian(noise), steps - 1), Gaussian(noise)) if steps > 1 else (Gaussian(noise),))
    )
    assert isinstance(exact, GaussianTradeOff)
    brackets(exact, g(mu), 1e-9)


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 1.0), (0.5, 2.0), (0.01, 0.5)])
def test_one_sampled_step_is_c_p(rate: float, noise: float) -> None:
    """min{f, f^-1}** with f = p G + (1 - p) Id (Bu et al. 2020, Proposition A.1), by a convex hull on a fine grid.

    f is the trade-off of the null against the mixture, so f(a) = p G(a) + (1 - p)(1 - a), and (f(a), a) its inverse.
    """
    x = np.concatenate((stats.norm.cdf(np.linspace(-9, 9, 20001)), [0.0, 1.0]))
    y = rate * g(1 / noise, x) + (1 - rate) * (1 - x)
    curve = trade_off(Poisson(rate, Gaussian(noise)))
    # The support function of both curves at many slopes gives their envelope: an independent route to the biconjugate.
    slopes = np.exp(14 * np.linspace(-1, 1, 4001) ** 3)
    heights = np.array([min(np.min(y + slope * x), np.min(x + slope * y)) for slope in slopes])
    exact = np.array([np.max(heights - slopes * share) for share in SHARES])
    low, high = curve.lower(SHARES), curve.upper(SHARES)
    assert np.all(low <= exact + 2e-6)
    assert np.all(exact <= high + 1e-7)
    assert np.max(high - low) < 5e-5


@pytest.mark.parametrize(("rate", "noise", "steps"), [ROW_2, (0.01, 6.0, 40000), (0.5, 20.0, 3), (0.05, 0.8, 100)])
def test_delta_agrees_with_references(rate: float, noise: float, steps: int) -> None:
    """dp-accounting 0.6.0, which is pessimistic on a grid of 1e-4, is never below our lower bound. Below 1e-6, where it
    has not the digits, `tilting` is between our bounds."""
    step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    theirs = PLDAccountant().compose(SelfComposedDpEvent(step, steps))
    curve = trade_off(sampled(rate, noise, steps))
    epsilons = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0])
    found = np.array([theirs.get_delta(float(epsilon)) for epsilon in epsilons])
    low, high = curve.delta_lower(epsilons), curve.delta(epsilons)
    small = found < 1e-6
    found[small] = [delta_of([(rate, noise, steps)], float(epsilon)) for epsilon in epsilons[small]]
    assert np.all(low <= found * (1 + 1e-6))
    assert np.all(found[small] <= high[small] * (1 + 1e-6))
    assert np.all(low <= high)
    assert high == pytest.approx(found, rel=0.01, abs=2e-12)


def test_epsilon_of_a_curve_is_that_of_the_accountant() -> None:
    event = sampled(*ROW_2)
    curve = trade_off(event)
    for delta in (1e-3, 1e-5, 1e-7):
        found = guarantee(event, delta)
        assert found.lower is not None
        assert found.lower <= curve.epsilon(delta) <= found.epsilon * 1.003
    assert trade_off(sampled(*ROW_2), focus=1e-5).epsilon(1e-5) == pytest.approx(
        guarantee(event, 1e-5).epsilon, rel=2e-3
    )


@pytest.mark.parametrize("curve", [trade_off(sampled(0.05, 0.8, 100)), gaussian_by_pld(1.0, 1)])
def test_the_dual_of_the_dual_is_the_curve(curve: PolygonalTradeOff) -> None:
    """delta(eps) = max over a of 1 - f(a) - e^eps a gives back the deltas, and f is its own inverse."""
    shares = np.concatenate((curve.lower(SHARES), corners(curve)[0]))
    power = curve.power(shares)
    for index in range(0, len(curve.epsilons), 150):
        epsilon, delta = float(curve.epsilons[index]), float(curve.deltas[index])
        back = float(np.max(power - math.exp(min(epsilon, 600)) * shares))
        assert back == pytest.approx(delta, rel=1e-4, abs=1e-11)
    inner = SHARES[(SHARES > 1e-6) & (SHARES < 0.999)]
    assert curve.lower(curve.lower(inner)) == pytest.approx(inner, abs=1e-9)
    assert np.all(np.diff(curve.lower(SHARES), 1) <= 0)
    assert np.all(np.diff(np.diff(curve.lower(SHARES)) / np.diff(SHARES)) >= -1e-4)


def test_arrays_are_answered_point_by_point() -> None:
    curve = trade_off(sampled(0.05, 0.8, 100))
    many = np.linspace(0, 1, 999)
    assert np.array_equal(curve.lower(many), [curve.lower(np.array([x]))[0] for x in many])
    assert curve.lower(many.reshape(27, 37)).shape == (27, 37)
    assert np.array_equal(curve.delta(many), [curve.delta(np.array([x]))[0] for x in many])


def test_no_simulated_attack_beats_the_curve() -> None:
    """A likelihood-ratio test on simulated outputs of five sampled steps: its errors lie on or above `lower`.

    40,000 runs on either side; three standard errors at 20 thresholds (false alarm rate below 3 %, seed fixed).
    """
    rate, noise, steps, runs = 0.3, 1.0, 5, 40_000
    curve = trade_off(sampled(rate, noise, steps))
    random = np.random.default_rng(11)

    def statistic(inside: bool) -> Array:
        chosen = random.random((runs, steps)) < rate * inside
        x = random.normal(0, noise, (runs, steps)) + chosen
        return np.asarray(np.sum(np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2))), axis=1))

    out, within = statistic(False), statistic(True)
    for threshold in np.quantile(out, np.linspace(0.05, 0.95, 20)):
        wrong, missed = float(np.mean(out > threshold)), float(np.mean(within <= threshold))
        error = 3 * math.sqrt(missed * (1 - missed) / runs) + 3 * 3 * math.sqrt(wrong * (1 - wrong) / runs)
        assert missed >= float(curve.lower(np.array([wrong]))[0]) - error
    cheating = float(curve.lower(np.array([0.1]))[0])
    assert float(np.mean(within + 1 <= np.quantile(out, 0.9))) < cheating - 0.05  # a leakier mechanism is caught


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_groups_of_gaussians_have_k_mu(size: int) -> None:
    brackets(from_mu(0.7).group(size), g(0.7 * size), 1e-9)
    polygon = gaussian_by_pld(3.0, 4).group(size)  # mu = 2/3
    exact = g(size * 2 / 3)
    assert np.all(polygon.lower(SHARES) <= exact + 1e-13)
    assert polygon.lower(SHARES) == pytest.approx(exact, abs=2e-4)
    assert polygon.epsilon(1e-5) >= gdp.epsilon_bounds(size * 2 / 3, 1e-5)[0]


def test_a_group_of_one_and_groups_of_groups() -> None:
    curve = trade_off(sampled(0.05, 0.8, 100))
    assert curve.group(1).lower(SHARES) == pytest.approx(curve.lower(SHARES), abs=1e-6)
    assert curve.group(2).group(2).lower(SHARES) == pytest.approx(curve.group(4).lower(SHARES), abs=2e-3)
    assert np.all(curve.group(3).lower(SHARES) <= curve.group(2).lower(SHARES) + 1e-9)
    naive = from_pairs(np.array([1.0]), np.array([1e-5])).group(2)  # Vadhan 2017, Lemma 2.2: 2 eps, (1 + e^eps) delta
    assert float(naive.delta(np.array([2.0]))[0]) == pytest.approx((1 + math.e) * 1e-5, rel=1e-9)


def test_a_group_that_really_has_two_units() -> None:
    """Two units sampled apart in every step, against an exact two-dimensional integral of the mixture's profile."""
    rate, noise = 0.2, 1.0
    x = np.linspace(-12, 14, 200_001)
    weights = [(1 - rate) ** 2, 2 * rate * (1 - rate), rate**2]
    both = sum(weight * stats.norm.pdf(x, shift, noise) for shift, weight in enumerate(weights))
    null = stats.norm.pdf(x, 0, noise)
    curve = trade_off(Poisson(rate, Gaussian(noise))).group(2)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        exact = max(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x) for p, q in ((both, null), (null, both)))
        assert exact <= float(curve.delta(np.array([epsilon]))[0]) + 1e-9


def test_loosened_adds_what_fails() -> None:
    for curve in (trade_off(sampled(0.05, 0.8, 100)), from_mu(0.5)):
        epsilons = np.array([0.0, 0.5, 2.0])
        more = curve.loosened(1e-4)
        # delta never rises with epsilon, which caps what the failures add at large ones.
        assert float(more.delta(epsilons)[0]) == pytest.approx(float(curve.delta(epsilons)[0]) + 2e-4, rel=1e-9)
        assert np.all(more.delta(epsilons) <= (curve.delta(epsilons) + (1 + np.exp(epsilons)) * 1e-4) * (1 + 1e-4))
        assert np.all(more.delta(epsilons) >= curve.delta(epsilons) + 1e-4)
        assert np.all(more.lower(SHARES) <= curve.lower(SHARES) + 1e-12)
        assert curve.loosened(0) is curve


def test_pairs_in_any_order() -> None:
    """Dong, Roth, Su 2022, Proposition 2.5: f of one (epsilon, delta), and the larger of two."""
    one = from_pairs(np.array([math.log(3)]), np.array([0.01]))
    shares = np.array([0.0, 0.1, 0.2475, 0.5, 1.0])
    exact = np.maximum(0, np.maximum(1 - 0.01 - 3 * shares, (1 - 0.01 - shares) / 3))
    assert one.lower(shares) == pytest.approx(exact, abs=1e-12)
    assert one.upper(shares) == pytest.approx(1 - shares)
    two = from_pairs(np.array([2.0, math.log(3)]), np.array([1e-6, 0.01]))
    other = from_pairs(np.array([2.0]), np.array([1e-6]))
    assert two.lower(SHARES) == pytest.approx(np.maximum(one.lower(SHARES), other.lower(SHARES)), abs=1e-12)
    for bad in ([], [-1.0], [math.nan]):
        with pytest.raises(InputError, match="epsilon"):
            from_pairs(np.array(bad), np.full(len(bad), 0.1))


@pytest.mark.parametrize("epsilon", [5e-17, 1e-16, 1e-14, 3e-13, 1e-10, 1e-6, 0.3])
def test_a_small_epsilon_still_bounds_the_advantage(epsilon: float) -> None:
    """tanh(epsilon / 2) bounds it; 1 - exp(-epsilon) had lost up to all of its digits."""
    found = from_pairs(np.array([epsilon]), np.array([1e-300])).advantage
    assert math.tanh(epsilon / 2) <= found <= math.tanh(epsilon / 2) * (1 + 1e-12)


def test_nothing_released_and_failure() -> None:
    assert trade_off(Compose(())).lower(SHARES) == pytest.approx(1 - SHARES)
    inner = SHARES[SHARES > 0]
    assert np.all(trade_off(Repeat(Poisson(0.5, Gaussian(0.05)), 100)).lower(inner) < 1e-9)
    for beyond in (Poisson(0.5, Gaussian(1e-200)), Gaussian(1e-200), Repeat(Poisson(0.01, Gaussian(1.0)), 10**400)):
        failed = trade_off(beyond)
        assert np.all(failed.lower(SHARES) == 0)
        assert math.isinf(failed.epsilon(1e-5))
    with pytest.raises(NotProved):
        trade_off(Laplace(1.0))
    with pytest.raises(NotProved):
        trade_off(Poisson(0.1, Gaussian(1.0)), Adjacency.REPLACE_ONE)


def test_covering_mu_of_a_gaussian_is_its_own() -> None:
    assert covering_mu(from_mu(0.8), 0) == pytest.approx(0.8)
    assert 0.8 * 0.999 < covering_mu(gaussian_by_pld(2.5, 4), 1e-9) < 0.8 * 1.001
    assert covering_mu(from_pairs(np.array([1.0]), np.array([1e-5])), 1e-9) == math.inf


def test_covering_mu_is_proved_and_least() -> None:
    """G_mu - slack is below the curve everywhere, and a mu that is a little smaller is not."""
    curve, slack = trade_off(sampled(*ROW_2)), 1e-5
    mu = covering_mu(curve, slack)
    dense = stats.norm.cdf(np.linspace(-7, 7, 4001))
    assert np.all(g(mu, dense) - slack <= curve.lower(dense) + 1e-12)
    assert np.any(g(mu * 0.999, dense) - slack > curve.lower(dense))
    epsilons = np.linspace(0, 6, 50)
    allowed = np.array([gdp.delta_bounds(mu, float(epsilon))[1] for epsilon in epsilons]) + slack
    assert np.all(curve.delta(epsilons) <= allowed + 1e-12)
    assert 0.57 < mu < 0.60  # their CLT says 0.57, an estimate on the unsafe side


def regret(curve: TradeOff, slack: float) -> float:
    """The true positive rate that `covering_mu` concedes needlessly: the largest excess, over 500 false positive rates,
    of 1 - G_mu + slack above what the curve allows."""
    mu = covering_mu(curve, slack)
    if not math.isfinite(mu):
        return 1.0
    share = stats.norm.cdf(np.linspace(-8.0, 8.0, 500))
    conceded = np.minimum(1 - g(mu, share) + slack, 1.0)
    return max(0.0, float(np.max(conceded - (1 - curve.lower(share)))))


def test_covering_mu_concedes_little() -> None:
    assert regret(from_mu(1.5), 0) < 1e-9
    curve = trade_off(sampled(*ROW_2))
    assert covering_mu(curve, 1e-9) > covering_mu(curve, 1e-4)
    assert 0 < regret(curve, 1e-4) < regret(curve, 1e-9) < 0.02
    assert regret(from_pairs(np.array([1.0]), np.array([1e-5])), 1e-9) == 1.0
    for slack in (-1e-9, 1.0, math.nan):
        with pytest.raises(InputError, match="slack"):
            covering_mu(curve, slack)


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-12, 1e-200])
def test_hardly_any_noise_is_a_bound_that_says_little(noise: float) -> None:
    """Who is drawn is seen, who is never drawn is not: f(a) = 0.5^3 - a. Losses of 1 / noise^2 leave the grid."""
    curve = trade_off(Repeat(Poisson(0.5, Gaussian(noise)), 3))
    shares = np.array([0.01, 0.5])
    assert np.all(curve.lower(shares) <= np.maximum(0.5**3 - shares, 0.0))
    assert np.all(curve.upper(shares) >= np.maximum(0.5**3 - shares, 0.0))


@pytest.mark.parametrize("event", [Gaussian(1.0), Repeat(Poisson(0.01, Gaussian(1.0)), 100)], ids=["exact", "sampled"])
def test_rates_and_epsilons_that_no_bound_holds_for_are_refused(event: Event) -> None:
    """Below epsilon 0 delta is at least 1 - e^epsilon, for any curve; rates in per cent are no rates."""
    curve = trade_off(event)
    for wrong in (-0.01, 5.0, math.nan):
        for asked in (curve.power, curve.lower, curve.upper):
            with pytest.raises(InputError, match=r"from 0 to 1: one of 5 % is 0\.05"):
                asked(np.array([0.1, wrong]))
    for wrong in (-1.0, math.nan):
        for bound in (curve.delta, curve.delta_lower):
            with pytest.raises(InputError, match="epsilons must be at least 0"):
                bound(np.array([1.0, wrong]))
    assert curve.power(np.array([0.0, 1.0])).tolist()[1] == 1.0
