"""Binomial tails are not below mpmath's, and limits of shares lie outward by a hair."""

import mpmath
import numpy as np
import pytest

from discreet.audit.bounds.binomial_limits import at_least, share_at_least, share_at_most


def exact_tail(count: int, trials: int, chance: float) -> mpmath.mpf:
    """P(at least `count`), term by term, with fifty digits."""
    with mpmath.workdps(50):
        p, total = mpmath.mpf(chance), mpmath.mpf(0)
        term = mpmath.binomial(trials, count) * p**count * (1 - p) ** (trials - count)
        for k in range(count, trials + 1):
            total += term
            term *= p * (trials - k) / ((1 - p) * (k + 1))
            if term < total * mpmath.mpf(10) ** -45:
                break
        return total


CASES = [(1, 1, 0.3), (3, 7, 0.5), (60, 100, 0.5), (561, 1000, 0.52), (900, 1000, 0.7), (53000, 100_000, 0.525)]


@pytest.mark.parametrize(("count", "trials", "chance"), CASES)
def test_tails_are_those_of_mpmath_rounded_up(count: int, trials: int, chance: float) -> None:
    exact = float(exact_tail(count, trials, chance))
    assert exact <= float(at_least(count, trials, chance)) <= exact * (1 + 3e-9) + 1e-299


def test_tails_at_the_ends_and_of_no_number() -> None:
    assert at_least(np.array([0, 5, 6]), 5, 0.5).tolist() == pytest.approx([1.0, 2.0**-5, 0.0])
    assert at_least(2, 5, np.array([-1.0, 2.0])).tolist() == pytest.approx([0.0, 1.0], abs=1e-299)
    assert float(at_least(2, 5, float("nan"))) == 1.0


@pytest.mark.parametrize("failure", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize(("count", "trials"), [(1, 1), (3, 7), (60, 100), (561, 1000), (990, 1000), (53000, 100_000)])
def test_limits_are_outward_and_close(count: int, trials: int, failure: float) -> None:
    low, high = share_at_least(count, trials, failure), share_at_most(count, trials, failure)
    assert exact_tail(count, trials, low) <= failure
    assert exact_tail(count, trials, low * (1 + 1e-6)) > failure
    if count < trials:
        with mpmath.workdps(50):
            assert 1 - exact_tail(count + 1, trials, high) <= failure * (1 + mpmath.mpf(10) ** -40)
            assert 1 - exact_tail(count + 1, trials, high - 1e-6 * (1 - high)) > failure
    else:
        assert high == 1.0


def test_limits_say_nothing_where_nothing_is_known() -> None:
    assert share_at_least(0, 10, 0.05) == 0.0
    assert share_at_most(10, 10, 0.05) == 1.0
    assert share_at_least(5, 10, 0.0) == 0.0
    assert share_at_least(5, 10, float("nan")) == 0.0
