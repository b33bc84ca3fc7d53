"""Plans at the ends of the range: no NaN, no warning (pytest makes it an error), no contradiction, fail closed."""

import math
import random

import pytest

from discreet.accounting.account import PROVING, Method, guarantee
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.pld.epsilon_interval import EpsilonInterval, Release, epsilon_interval
from discreet.accounting.theories.gdp import epsilon_bounds
from discreet.core.events import Event, Gaussian, Poisson, Repeat, flatten


def plans(seed: int, count: int) -> list[tuple[float, float, int, float]]:
    """(rate, noise, steps, delta), each log-uniform; every tenth without sampling."""
    rng = random.Random(seed)
    return [
        (
            1.0 if row % 10 == 9 else 10 ** rng.uniform(-6, 0),
            10 ** rng.uniform(math.log10(0.2), 2),
            int(10 ** rng.uniform(0, 6)),
            10 ** rng.uniform(-12, -2),
        )
        for row in range(count)
    ]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), plans(2026, 60))
def test_random_plans(rate: float, noise: float, steps: int, delta: float) -> None:
    def spend(noise: float = noise, steps: int = steps, delta: float = delta) -> tuple[float, float]:
        found = guarantee(Repeat(Poisson(rate, Gaussian(noise)), steps), delta)
        assert found.lower is not None
        assert 0 <= found.lower <= found.epsilon < math.inf
        return found.lower, found.epsilon

    lower, upper = spend()
    rdp = guarantee(Repeat(Poisson(rate, Gaussian(noise)), steps), delta, method=Method.RDP)
    assert lower <= rdp.epsilon
    assert spend(noise=noise * 1.1)[0] <= upper
    assert lower <= spend(steps=steps + 1 + steps // 10)[1]
    assert spend(delta=delta * 1.2)[0] <= upper
    if rate == 1:
        closed = epsilon_bounds(math.sqrt(steps) / noise, delta)
        assert closed[0] * (1 - 1e-9) <= upper
        assert lower <= closed[1] * (1 + 1e-9)


# All were infinite, slow, or an exception once.
CORNERS = [
    (2.386e-05, 0.238, 11, 6.99e-7),  # the addition direction: losses bounded by 2e-5 above, -33 below
    (1.688e-06, 47.06, 82505, 4.19e-3),  # losses far below the grid
    (2.086e-04, 0.2316, 335, 7.59e-11),
    (1.223e-06, 0.2219, 34160, 3.13e-10),
    (0.5, 0.1, 3, 1e-10),
    (1 - 2**-53, 1.0, 100, 1e-5),
    (1e-300, 1.0, 100, 1e-5),
    (0.01, 1e6, 1000, 1e-12),
    (0.01, 1.0, 100, 0.9999),
    (0.01, 1.0, 100, 1e-100),
    (0.01, 1.0, 100, 1e-190),
    (0.5, 1e-3, 1, 1e-5),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), CORNERS)
def test_corners_are_finite(rate: float, noise: float, steps: int, delta: float) -> None:
    found = guarantee(Repeat(Poisson(rate, Gaussian(noise)), steps), delta)
    assert found.lower is not None
    assert 0 <= found.lower <= found.epsilon < math.inf
    assert found.epsilon - found.lower <= max(0.02 * found.epsilon, 1e-3)


@pytest.mark.parametrize("method", PROVING)
@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1e-200),
        Gaussian(1e-160),
        Gaussian(5e-324),
        Poisson(0.5, Gaussian(1e-200)),
        Repeat(Gaussian(1.0), 10**400),
        Repeat(Poisson(0.01, Gaussian(1.0)), 10**400),
        Poisson(0.5, Repeat(Gaussian(1.0), 10**400)),
    ],
)
def test_beyond_floating_point_is_infinite(event: Event, method: Method) -> None:
    sampled = any(isinstance(part, Poisson) for part, _ in flatten(event))
    if sampled and method in (Method.GDP, Method.ZCDP):
        pytest.skip("does not account for sampling")
    found = guarantee(event, 1e-5, method=method)
    assert found.epsilon == math.inf
    assert not found.lower


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.999, 3.0)])
def test_more_steps_than_a_grid_holds_are_left_to_rdp(rate: float, noise: float) -> None:
    """Transforms of 10^17 numbers were asked for."""
    event = Repeat(Poisson(rate, Gaussian(noise)), 10**25)
    found = guarantee(event, 1e-5)
    assert (found.method, found.lower) == ("rdp", 0)
    assert found.epsilon == guarantee(event, 1e-5, method=Method.RDP).epsilon < math.inf
    assert trade_off(event).advantage == 1


@pytest.mark.parametrize("delta", [1e-250, 5e-324])
def test_hopeless_deltas_are_left_to_rdp(delta: float) -> None:
    assert epsilon_interval([Release(0.01, 1.0, 1)], delta) == EpsilonInterval(0.0, math.inf)
    event = Poisson(0.01, Gaussian(1.0))
    found = guarantee(event, delta)
    assert found.epsilon == guarantee(event, delta, method=Method.RDP).epsilon
    assert found.method == ("rdp" if math.isfinite(found.epsilon) else "pld")
    assert found.lower == 0


def test_rdp_of_losses_below_the_precision_of_a_double() -> None:
    """log E[(P/Q)^2] = log(1 + q^2 (e^(1/s^2) - 1)) (Mironov, Talwar, Zhang 2019): must not round to 0."""
    from discreet.accounting.theories.rdp import sampled_gaussian

    rate, noise = 1e-9, 3.0
    exact = math.log1p(rate**2 * math.expm1(1 / noise**2))
    assert exact <= sampled_gaussian(rate, noise, [2])[0] <= exact * (1 + 1e-9)


def test_where_rdp_proves_less_it_is_stated_under_its_name() -> None:
    """Losses of 10^16, which no grid holds: the Rényi bound is 2 x 10^16 / 2 and a little."""
    event = Repeat(Poisson(0.5, Gaussian(1e-8)), 2)
    found = guarantee(event, 1e-5)
    assert found.method == "rdp"
    assert found.lower == 0
    assert found.epsilon == guarantee(event, 1e-5, method=Method.RDP).epsilon
    assert 1e16 <= found.epsilon <= 3e16
    assert guarantee(Repeat(Poisson(0.01, Gaussian(1.0)), 100), 1e-5).method == "pld"
