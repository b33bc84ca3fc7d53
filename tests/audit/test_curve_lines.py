"""Lines bound the curves they stand for, and are close to them."""

import mpmath
import numpy as np
import pytest

from discreet import trade_off
from discreet.accounting.answers.tradeoff import from_mu, from_pairs
from discreet.audit.bounds.curve_lines import Lines
from discreet.core.events import Gaussian, Poisson, Repeat

RATES = np.concatenate([np.logspace(-10, -1, 40), np.linspace(0.1, 1, 30)])


def least(lines: Lines, shares: np.ndarray) -> np.ndarray:
    return np.minimum(1.0, np.min(lines.constants + lines.growths * shares[:, None], axis=1))


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0, 12.0])
def test_gaussian_lines_lie_above_the_curve_of_mpmath(mu: float) -> None:
    with mpmath.workdps(40):
        points = [mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(float(x)) - 1) for x in RATES[RATES < 1]]
        exact = np.array([float(mpmath.ncdf(point + mu)) for point in points])
    found = least(Lines.of(from_mu(mu)), RATES[RATES < 1])
    assert np.all(found >= np.minimum(exact, 1.0) * (1 - 1e-15))
    assert np.all(found <= exact * (1 + 2e-3) + 1e-14)


def test_lines_of_a_plan_are_its_curve() -> None:
    curve = trade_off(Repeat(Poisson(0.1, Gaussian(1.0)), 30))
    found, power = least(Lines.of(curve), RATES), curve.power(RATES)
    assert np.all(found >= power * (1 - 1e-12))
    assert np.all(found <= power * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_right_guesses_of_a_gaussian(mu: float) -> None:
    """The surest guesses are those with the largest likelihood ratios: with alarms x, hits F(x), v = x + F(x)."""
    hits = mpmath.ncdf
    for level in (0.1, 0.5, 1.5, 3.0):
        threshold = mu / 2 + level
        wrong, right = float(hits(-threshold)), float(hits(mu - threshold))
        found = float(Lines.gaussian(mu).most_right(np.array([wrong + right]))[0])
        assert right * (1 - 1e-12) <= found <= right * (1 + 1e-3)
    assert float(Lines.gaussian(mu).most_right(np.ones(1))[0]) == pytest.approx(float(hits(mu / 2)), rel=1e-4)


def test_right_guesses_of_a_pair_and_of_no_curve() -> None:
    """Randomised response with a rate delta of full disclosure: sure guesses first, then e^eps / (1 + e^eps)."""
    epsilon, delta = 1.0, 0.1
    lines = Lines.of(from_pairs(np.array([epsilon]), np.array([delta])))
    shares = np.array([0.05, delta, 0.5, 1.0])
    rest = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert lines.most_right(shares) == pytest.approx([0.05, 0.1, 0.1 + 0.4 * rest, 0.1 + 0.9 * rest], abs=1e-9)
    nothing = Lines(np.zeros(0), np.zeros(0))
    assert nothing.most_right(shares).tolist() == shares.tolist()


def test_curves_out_of_range_bound_nothing() -> None:
    assert len(Lines.gaussian(float("nan")).growths) == 0
    assert len(Lines.gaussian(1e9).growths) == 0
