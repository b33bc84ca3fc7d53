"""Lower bounds are claimed only of tests that exist and of data sets that can be: by closed forms and by counting."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from discreet.accounting import Compose, delta_at, guarantee
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import GaussianTradeOff, PolygonalTradeOff, polygonal
from discreet.core.adjacency import Adjacency
from discreet.core.events import Epoch, Event, FixedSize, Gaussian, Repeat, SparseHistogram, TruncatedPoisson

ZERO_OUT, REPLACE_ONE = Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8, with fifty digits."""
    with mp.workdps(50):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return float(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


def polygon_of(mu: float) -> PolygonalTradeOff:
    return GaussianTradeOff(mu).polygon()


@given(mu=st.floats(0.01, 80.0), share=st.floats(0.0, 3.0))
def test_a_polygon_claims_no_more_than_its_gaussian(mu: float, share: float) -> None:
    """Rates that round to 0 are no tests without false positives: e^epsilon would magnify nothing."""
    epsilon = share * (mu * mu / 2 + 10 * mu)
    assert polygon_of(mu).delta_lower(np.array([epsilon]))[0] <= gaussian_delta(mu, epsilon)


@pytest.mark.parametrize("mu", [1.0, 10.0, 100.0])
def test_nothing_is_found_without_a_false_positive(mu: float) -> None:
    """f(0) = 1 for every Gaussian, and far epsilons cost nothing (delta is below e^-700 there)."""
    polygon = polygon_of(mu)
    assert polygon.upper(np.zeros(1))[0] == 1
    assert polygon.delta_lower(np.array([1e6]))[0] == 0


def test_a_rate_that_underflows_is_no_zero() -> None:
    curve = polygonal(np.array([0.0, 1.0]), np.array([1.0, 1.0]), np.zeros(1), np.array([0.9]))
    assert curve.upper(np.zeros(1))[0] == 1
    assert curve.delta_lower(np.array([800.0]))[0] == 0


@pytest.mark.parametrize("epsilon", [60.0, 80.0, 100.0])
def test_a_unit_that_others_crowd_out_is_seldom_seen(epsilon: float) -> None:
    """All six units are drawn and five stay: this one with probability 5/6, whatever the noise."""
    found = delta_at(TruncatedPoisson(1.0, 5, 6, Gaussian(0.1)), epsilon)
    assert found.lower <= 5 / 6


UNITS = 20
RARE = (TruncatedPoisson(1.0, 1, UNITS, Gaussian(0.5)), SparseHistogram(1.0, 39.0))
FIXED = (FixedSize(UNITS, UNITS, Gaussian(1e6)), Epoch(Repeat(Gaussian(1e6), 2)))


@pytest.mark.parametrize("adjacency", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize("rare", RARE, ids=["full", "rare"])
@pytest.mark.parametrize("fixed", FIXED, ids=["fixed size", "epoch"])
def test_no_lower_bound_where_the_number_of_units_is_fixed(fixed: Event, rare: Event, adjacency: Adjacency) -> None:
    """Twenty units crowd each other out of a batch for one, and are too few for a threshold of 39."""
    both = Compose((rare, fixed))
    assert guarantee(both, 1e-3, adjacency).lower in (None, 0.0)
    assert trade_off(both, adjacency).delta_lower(np.zeros(1))[0] == 0


def test_what_was_claimed_before_is_false() -> None:
    """The chance that the unit is in its batch of one bounds delta at 0; in a data set of one unit it is always in."""
    others = np.arange(UNITS)
    seen = float(np.sum(binom.pmf(others, UNITS - 1, 1.0) / (others + 1)))
    alone = delta_at(RARE[0], 0.0, REPLACE_ONE)
    assert alone.lower == pytest.approx(2 * norm.cdf(2) - 1, abs=1e-3)
    assert seen < 0.06 < alone.lower
