"""Calibration: on the safe side, tight, cheap, and refused out of reach."""

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant

from discreet.accounting.account import Method, guarantee
from discreet.accounting.answers.calibrate import TOLERANCE, calibrate_noise
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat

CASES = [
    (0.01, 1000, 1.0, 1e-5, Method.PLD),
    (0.01, 1000, 8.0, 1e-6, Method.PLD),
    (256 / 60000, 14062, 2.32, 1e-5, Method.PLD),
    (0.3, 50, 0.3, 1e-5, Method.PLD),
    (1.0, 400, 3.0, 1e-5, Method.PLD),
    (0.001, 1, 0.05, 1e-7, Method.PLD),
    (0.02, 2000, 4.0, 1e-5, Method.RDP),
    (0.5, 3, 100.0, 1e-8, Method.PLD),
]


@pytest.mark.parametrize(("rate", "steps", "epsilon", "delta", "method"), CASES)
def test_safe_tight_and_cheap(rate: float, steps: int, epsilon: float, delta: float, method: Method) -> None:
    calls: list[float] = []

    def plan(noise: float) -> Event:
        calls.append(noise)
        return Repeat(Poisson(rate, Gaussian(noise)), steps)

    noise, met = calibrate_noise(plan, epsilon, delta, method=method)
    assert len(calls) <= 40
    assert met.epsilon <= epsilon
    assert guarantee(plan(noise), delta, method=method) == met
    assert guarantee(plan(noise * (1 - 2 * TOLERANCE)), delta, method=method).epsilon > epsilon


def test_several_parts_share_one_multiplier() -> None:
    def plan(noise: float) -> Event:
        return Compose((Gaussian(4 * noise), Repeat(Poisson(0.01, Gaussian(noise)), 500)))

    noise, met = calibrate_noise(plan, 2.0, 1e-5, Adjacency.ZERO_OUT)
    assert met.epsilon <= 2.0 < guarantee(plan(0.999 * noise), 1e-5).epsilon


def test_replace_one_needs_twice_the_noise_without_sampling() -> None:
    one, _ = calibrate_noise(lambda s: Repeat(Gaussian(s), 10), 1.0, 1e-5)
    two, _ = calibrate_noise(lambda s: Repeat(Gaussian(s), 10), 1.0, 1e-5, Adjacency.REPLACE_ONE)
    assert two == pytest.approx(2 * one, rel=3 * TOLERANCE)


def test_agrees_with_dp_accounting() -> None:
    """Half a percent around our multiplier dp-accounting 0.6.0 (pessimistic, grid 1e-4) is on either side."""
    noise, _ = calibrate_noise(lambda s: Repeat(Poisson(0.02, Gaussian(s)), 500), 2.0, 1e-5)

    def theirs(s: float) -> float:
        event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(s)), 500)
        return float(pld_privacy_accountant.PLDAccountant().compose(event).get_epsilon(1e-5))

    assert theirs(noise * 0.995) > 2.0 > theirs(noise * 1.005)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), True, "2"])
def test_budgets_that_are_none(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        calibrate_noise(Gaussian, epsilon, 1e-5)


def test_out_of_reach() -> None:
    with pytest.raises(InputError, match="no noise multiplier up to 1e\\+06"):
        calibrate_noise(lambda s: Repeat(Gaussian(s), 10**16), 0.01, 1e-12)
    with pytest.raises(InputError, match="lower epsilon"):
        calibrate_noise(Gaussian, 1e9, 1e-5)
