"""What a guarantee means: closed forms, brackets, edges."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.accounting.answers import attack_risk, tradeoff
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.theories import gdp
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson, Repeat

GRID = np.arange(60) / 4


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_closed_form_and_its_profile_agree(mu: float) -> None:
    risk = attack_risk.from_mu(mu)
    hull = attack_risk.Risk(tradeoff.from_pairs(GRID, np.array([gdp.delta_bounds(mu, eps)[1] for eps in GRID])))
    assert risk.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1, rel=1e-11)
    for share in (1e-6, 0.001, 0.01, 0.1, 0.5, 0.9):
        exact = float(stats.norm.cdf(stats.norm.ppf(share) + mu))
        assert risk.true_positive_rate(share) == pytest.approx(exact, rel=1e-10)
        assert exact * (1 - 1e-9) <= hull.true_positive_rate(share) <= 1.1 * exact + 1e-9
    assert risk.advantage <= hull.advantage <= risk.advantage * 1.1


@pytest.mark.parametrize("event", [Gaussian(1.3), Repeat(Poisson(0.02, Gaussian(0.9)), 100)])
def test_many_rates_at_once_are_those_of_each(event: Gaussian | Repeat) -> None:
    shares = np.append(np.linspace(0.0, 1.0, 41), 1e-6)
    for risk in (attack_risk.from_event(event), attack_risk.from_budget(1.0, 1e-5)):
        assert risk.true_positive_rates(shares).tolist() == [risk.true_positive_rate(float(one)) for one in shares]


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_rates_outside_of_the_unit_interval_are_refused(share: float) -> None:
    with pytest.raises(InputError, match="false_positive_rates must be between 0 and 1"):
        attack_risk.from_budget(1.0, 1e-5).true_positive_rates(np.array([0.5, share]))


def test_one_budget() -> None:
    risk = attack_risk.from_budget(math.log(3), 0.01)
    assert risk.true_positive_rate(0.1) == pytest.approx(0.31)  # 0.01 + 3 x 0.1
    assert risk.true_positive_rate(0.9) == pytest.approx(1 - (1 - 0.01 - 0.9) / 3)
    assert risk.advantage == pytest.approx((3 - 1 + 0.02) / 4)
    assert risk.true_positive_rate(0.0) == pytest.approx(0.01)
    assert risk.true_positive_rate(1.0) == 1.0
    assert risk.posterior(0.5, 0.1) == pytest.approx(0.31 / 0.41)
    assert risk.posterior(0.5, 0.0) == 1.0


def test_no_privacy_and_perfect_privacy() -> None:
    for nothing in (
        attack_risk.from_budget(1e6, 1e-9),
        attack_risk.from_budget(math.inf, 1e-9),
        attack_risk.from_mu(1e9),
    ):
        assert nothing.true_positive_rate(0.01) == 1.0
    assert attack_risk.from_mu(0.0).true_positive_rate(0.3) == pytest.approx(0.3)
    assert attack_risk.from_mu(0.0).advantage == 0.0
    assert attack_risk.from_mu(0.0).posterior(0.2, 0.3) == pytest.approx(0.2)


@pytest.mark.parametrize(("epsilon", "prior", "posterior"), [(0, 0.1, 0.1), (math.log(4), 0.5, 0.8), (1e4, 0.01, 1.0)])
def test_posterior_without_delta(epsilon: float, prior: float, posterior: float) -> None:
    assert attack_risk.posterior_without_delta(epsilon, prior) == pytest.approx(posterior)


def test_side_by_side_the_curve_is_never_the_worse_and_far_better_in_the_middle() -> None:
    """A (7.10, 1e-5) of Bu et al. 2020, Table 1, row 3, is about mu = 1.13 in truth: the point of their section 4.1."""
    event = Repeat(Poisson(256 / 60000, Gaussian(0.7)), 10547)
    both = attack_risk.side_by_side(trade_off(event), 7.10, 1e-5)
    assert both.curve is not None
    assert both.best is both.curve
    for share in (0.0, 1e-7, 1e-4, 0.01, 0.1, 0.5, 0.99, 1.0):
        assert both.curve.true_positive_rate(share) <= both.budget.true_positive_rate(share)
        assert both.curve.posterior(0.1, share) <= both.budget.posterior(0.1, share)
    assert both.budget.advantage > 0.99
    assert both.curve.advantage == pytest.approx(2 * stats.norm.cdf(1.13 / 2) - 1, rel=0.05)


def test_side_by_side_without_a_curve() -> None:
    both = attack_risk.side_by_side(None, 1.0, 1e-5)
    assert both.curve is None
    assert both.best is both.budget


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_bad_shares(share: float) -> None:
    with pytest.raises(InputError, match="false_positive_rate"):
        attack_risk.from_mu(1.0).true_positive_rate(share)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_bad_epsilons(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        attack_risk.from_budget(epsilon, 0.1)


@pytest.mark.parametrize("mu", [-1.0, math.nan])
def test_bad_mu(mu: float) -> None:
    with pytest.raises(InputError, match="mu"):
        attack_risk.from_mu(mu)
