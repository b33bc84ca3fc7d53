"""What a limit allows: within it, tight, in a few dozen evaluations, and refused out of reach."""

import math
from collections.abc import Callable

import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy import stats

from discreet.accounting import schedules
from discreet.accounting.account import Method
from discreet.accounting.answers import solve
from discreet.accounting.theories import gdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian, Poisson, Repeat

RATE, NOISE, STEPS = 0.02, 1.2, 400


def sampled(rate: float, noise: float, steps: int) -> Event:
    return Repeat(Gaussian(noise) if rate == 1 else Poisson(rate, Gaussian(noise)), steps)


LIMITS: dict[str, tuple[solve.Measure, float]] = {
    "epsilon": (solve.epsilon_of(1e-5), 1.5),
    "epsilon by rdp": (solve.epsilon_of(1e-5, method=Method.RDP), 1.5),
    "mu": (solve.mu_of(1e-5), 0.4),
    "true positives": (solve.true_positives_of(0.01), 0.03),
    "advantage": (solve.advantage_of(), 0.15),
}
FINDERS: dict[str, tuple[Callable[..., solve.Solution], Callable[[float], Event], float]] = {
    "noise": (solve.noise_for, lambda x: sampled(RATE, x, STEPS), -1.0),
    "steps": (solve.steps_for, lambda x: sampled(RATE, NOISE, int(x)), 1.0),
    "rate": (solve.rate_for, lambda x: sampled(x, NOISE, STEPS), 1.0),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("finder", FINDERS)
def test_within_tight_and_cheap(finder: str, limit: str) -> None:
    (find, event, towards), (measure, value) = FINDERS[finder], LIMITS[limit]
    calls: list[float] = []

    def counted(x: float) -> Event:
        calls.append(x)
        return event(x)

    found = find(counted, measure, value)
    assert len(calls) == found.evaluations <= 24
    assert found.spent == measure(event(found.value)) <= value
    # An epsilon may be half a percent above the truth, here and not there; that is more than the search gives away.
    more = math.ceil(found.value * 1.02) if finder == "steps" else found.value * (1 + towards * 0.01)
    assert measure(event(more)) > value


def test_noise_for_mu_without_sampling_is_exact() -> None:
    """mu = sqrt(T) / sigma (Dong, Roth, Su 2022, Corollary 3.3); twice that where one unit replaces another."""
    found = solve.noise_for(lambda x: sampled(1, x, 10), solve.mu_of(0), 0.5)
    assert found.value == pytest.approx(math.sqrt(10) / 0.5, rel=2e-4)
    twice = solve.noise_for(lambda x: sampled(1, x, 10), solve.mu_of(0, Adjacency.REPLACE_ONE), 0.5)
    assert twice.value == pytest.approx(2 * math.sqrt(10) / 0.5, rel=2e-4)


def test_noise_for_an_attack_without_sampling() -> None:
    """Power of the Neyman-Pearson test of N(0, 1) against N(mu, 1)."""
    found = solve.noise_for(lambda x: sampled(1, x, 1), solve.true_positives_of(0.01), 0.05)
    assert found.value == pytest.approx(1 / (stats.norm.ppf(0.05) - stats.norm.ppf(0.01)), rel=2e-4)
    found = solve.noise_for(lambda x: sampled(1, x, 1), solve.advantage_of(), 0.1)
    assert found.value == pytest.approx(1 / (2 * stats.norm.ppf(0.55)), rel=2e-4)


def test_steps_without_sampling_are_exact() -> None:
    """The largest T with sqrt(T) / sigma at most the mu of (epsilon, delta)."""
    found = solve.steps_for(lambda count: sampled(1, 30.0, count), solve.epsilon_of(1e-5), 2.0)
    assert found.value == math.floor((gdp.mu_for(2.0, 1e-5) * 30.0) ** 2)


def test_steps_agree_with_dp_accounting() -> None:
    """One percent more or fewer steps are on either side of the budget by dp-accounting 0.6.0 (grid 1e-4)."""
    found = solve.steps_for(lambda count: sampled(RATE, NOISE, count), solve.epsilon_of(1e-5), 1.5)
    step = PoissonSampledDpEvent(RATE, GaussianDpEvent(NOISE))

    def theirs(count: float) -> float:
        return float(PLDAccountant().compose(SelfComposedDpEvent(step, round(count))).get_epsilon(1e-5))

    assert theirs(found.value * 0.99) < 1.5 < theirs(found.value * 1.01)


def test_a_rate_of_one_is_the_most() -> None:
    assert solve.rate_for(lambda x: sampled(x, 100.0, 10), solve.epsilon_of(1e-5), 1.0).value == 1.0


def test_schedules_under_any_limit() -> None:
    """`solve_rate` with limits on attacks: so many epochs fit and one more does not, in a few dozen evaluations."""
    calls = 0
    measure = solve.advantage_of()

    def event(shape: schedules.Schedule, epochs: int) -> Event:
        from discreet.core.events import Compose

        return Compose(tuple(sampled(0.5, noise, steps) for noise, steps in shape.phases(2 * epochs, 0.5)))

    def fits(shape: schedules.Schedule, epochs: int) -> bool:
        nonlocal calls
        calls += 1
        return measure(event(shape, epochs)) <= 0.3

    found = schedules.solve_rate(schedules.parse("exponential:initial=6"), fits, 4)
    assert calls <= 60
    assert measure(event(found, 4)) <= 0.3 < measure(event(found, 5))


def test_out_of_reach_and_bad_limits() -> None:
    epsilon = solve.epsilon_of(1e-12)
    with pytest.raises(InputError, match="no noise multiplier"):
        solve.noise_for(lambda x: sampled(1, x, 10**16), epsilon, 0.01)
    with pytest.raises(InputError, match="no longer protects"):
        solve.noise_for(Gaussian, epsilon, 1e9)
    with pytest.raises(InputError, match="not even one step"):
        solve.steps_for(lambda count: sampled(1, 0.5, count), epsilon, 0.01)
    with pytest.raises(InputError, match="lasts for more"):
        solve.steps_for(lambda count: sampled(1, 1e9, count), epsilon, 10.0)
    with pytest.raises(InputError, match="no sampling rate"):
        solve.rate_for(lambda x: sampled(x, 0.02, 10**6), solve.epsilon_of(1e-12, method=Method.BASIC), 1e-9)
    for limit in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="limit"):
            solve.noise_for(Gaussian, epsilon, limit)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="false_positive_rate"):
            solve.true_positives_of(bad)
