"""Pure releases inside every sampler, beside Gaussians, in trade-off functions, groups and filters' costs.

The reference: given the outcome of randomised response at e, the losses of all else shift by e or -e, so with
p = e^e / (1 + e^e) the profile of both together is p delta(x - e) + (1 - p) delta(x + e). It holds for any profile
delta of the rest, and delta(-x) = 1 - e^-x + e^-x delta(x) where the rest is its own mirror image.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from discreet.accounting.account import Method, guarantee
from discreet.accounting.adaptive import costs
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.profile import delta_at, group_guarantee
from discreet.accounting.theories import pure
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import NotProved
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    TruncatedPoisson,
)
from discreet.core.trials import PoissonTrials

ADD_REMOVE, ZERO_OUT, REPLACE_ONE = Adjacency
DELTA = 1e-5
Delta = Callable[[float], float]
Bound = Callable[[float, Sequence[float]], Array]


def gaussian_delta(mu: float) -> Delta:
    return lambda x: float(norm.cdf(mu / 2 - x / mu) - math.exp(x) * norm.cdf(-mu / 2 - x / mu))


def with_response(rest: Delta, epsilon: float, count: int = 1) -> Delta:
    """The profile of `rest` beside `count` randomised responses."""
    for _ in range(count):
        rest = _once(rest, epsilon)
    return rest


def _once(rest: Delta, epsilon: float) -> Delta:
    p = 1 / (1 + math.exp(-epsilon))
    return lambda x: p * rest(x - epsilon) + (1 - p) * rest(x + epsilon)


def mirrored(upper: Delta) -> Delta:
    return lambda x: upper(x) if x >= 0 else -math.expm1(x) + math.exp(x) * upper(-x)


def test_fixed_size_gaussians_beside_a_noisy_max() -> None:
    batches: Event = Repeat(FixedSize(1000, 10, Gaussian(2.0)), 200)
    both = Compose((batches, NoisyMax(0.2)))
    curve = trade_off(batches, REPLACE_ONE)
    alone = mirrored(lambda x: float(curve.delta(np.array([x]))[0]))
    reference = with_response(alone, 0.4)  # twice 0.2: a removal and an addition
    exact = brentq(lambda x: math.log(reference(x) / DELTA), 0.0, 10.0)
    found = guarantee(both, DELTA, REPLACE_ONE)
    assert found.epsilon == pytest.approx(exact, rel=0.01)
    single = guarantee(batches, DELTA, REPLACE_ONE)
    assert 0 < (found.lower or 0) <= single.epsilon < found.epsilon <= single.epsilon + 0.4 + 1e-9
    together = float(trade_off(both, REPLACE_ONE).delta(np.array([1.0]))[0])
    assert reference(1.0) * 0.999 <= together <= reference(1.0) * 1.02


@pytest.mark.parametrize(("mu", "epsilon", "count"), [(1.0, 0.5, 1), (0.3, 0.05, 3), (2.0, 2.0, 2)])
def test_trade_off_of_gaussians_and_pure_releases(mu: float, epsilon: float, count: int) -> None:
    event = Compose((Gaussian(1 / mu), Repeat(NoisyMax(epsilon), count)))
    exact = with_response(gaussian_delta(mu), epsilon, count)
    curve = trade_off(event)
    for x in np.linspace(0, count * epsilon + mu, 7):
        upper, lower = float(curve.delta(np.array([x]))[0]), float(curve.delta_lower(np.array([x]))[0])
        assert exact(x) <= upper <= exact(x) * 1.02 + 1e-6
        assert lower <= gaussian_delta(mu)(x) * (1 + 1e-9)  # a test exists that looks at the Gaussian
    assert delta_at(event, 1.0).delta == pytest.approx(exact(1.0), rel=0.01)
    assert delta_at(event, 1.0).delta >= exact(1.0)


def test_trade_off_of_pure_releases_alone() -> None:
    curve = trade_off(NoisyMax(1.0))
    share = math.e / (1 + math.e)
    assert float(curve.delta(np.zeros(1))[0]) == pytest.approx(2 * share - 1, rel=1e-3)
    assert float(curve.lower(np.array([1 - share]))[0]) == pytest.approx(1 - share, rel=1e-3)
    assert float(curve.lower(np.array([1 - share]))[0]) <= 1 - share
    assert float(curve.delta(np.array([1.01]))[0]) < 1e-9
    assert float(curve.upper(np.array([0.3]))[0]) == pytest.approx(0.7)  # no test is known
    ranged = trade_off(BoundedRange(1.0))
    assert float(ranged.delta(np.zeros(1))[0]) == pytest.approx(math.tanh(0.25), rel=1e-3)


def test_groups_and_sampled_pure_releases() -> None:
    pair = Compose((NoisyMax(0.3), Gaussian(5.0)))
    two = group_guarantee(pair, 2, DELTA)
    assert guarantee(Compose((NoisyMax(0.6), Gaussian(2.5))), DELTA).epsilon * 0.99 <= two.epsilon < 2.5
    sampled = Repeat(Poisson(0.1, NoisyMax(1.0)), 5)
    amplified = math.log1p(0.1 * math.expm1(1.0))
    exact = with_response(lambda x: max(0.0, -math.expm1(x)), amplified, 5)
    found = delta_at(sampled, 0.3).delta
    assert exact(0.3) <= found <= exact(0.3) * 1.01


@pytest.mark.parametrize("event", [Selection(NoisyMax(0.3), PoissonTrials(3.0)), Laplace(2.0)])
def test_what_has_no_trade_off_function_is_refused(event: Event) -> None:
    for beside in (event, Compose((event, Gaussian(2.0)))):
        with pytest.raises(NotProved, match="method pld does not account for"):
            trade_off(beside)
        with pytest.raises(NotProved, match="method pld does not account for"):
            group_guarantee(beside, 3, DELTA)


@pytest.mark.parametrize("kind", [NoisyMax, BoundedRange])
@pytest.mark.parametrize("method", [Method.PLD, Method.RDP, Method.ZCDP, Method.ADVANCED, Method.BASIC])
def test_epochs_and_periods_cost_their_dearest_batch(kind: type[NoisyMax | BoundedRange], method: Method) -> None:
    cheap, dear = kind(0.1), kind(0.4)
    epoch = Epoch(Compose((Repeat(cheap, 5), dear)))
    plain = guarantee(Repeat(dear, 3), DELTA, ZERO_OUT, method).epsilon
    assert guarantee(Repeat(epoch, 3), DELTA, ZERO_OUT, method).epsilon == pytest.approx(plain, rel=1e-12)
    period = Allocation(10, 3, dear)
    assert guarantee(period, DELTA, ADD_REMOVE, method).epsilon == pytest.approx(plain, rel=1e-12)
    other = NoisyMax if kind is BoundedRange else BoundedRange
    mixed = Epoch(Compose((other(0.1), dear)))  # of two kinds, only the pure guarantee is known
    worst = guarantee(Repeat(NoisyMax(0.4), 3), DELTA, ZERO_OUT, method).epsilon
    assert guarantee(Repeat(mixed, 3), DELTA, ZERO_OUT, method).epsilon == pytest.approx(worst, rel=1e-12)


def test_epochs_beside_pure_releases_keep_a_lower_bound() -> None:
    epoch = Epoch(Repeat(Gaussian(1.0), 10))
    alone = guarantee(epoch, DELTA, ZERO_OUT)
    both = guarantee(Compose((epoch, NoisyMax(0.2))), DELTA, ZERO_OUT)
    assert 0 < (alone.lower or 0) <= (both.lower or 0) <= alone.epsilon < both.epsilon <= alone.epsilon + 0.2 + 1e-9
    assert not trade_off(Compose((epoch, NoisyMax(0.2))), ZERO_OUT).delta_lower(np.zeros(1))[0] > 1e-9


def test_truncated_batches_of_pure_releases_pay_for_overflow() -> None:
    poisson = Repeat(Poisson(0.1, NoisyMax(1.0)), 40)
    truncated = Repeat(TruncatedPoisson(0.1, 180, 1000, NoisyMax(1.0)), 40)
    for method in (Method.PLD, Method.ADVANCED, Method.BASIC):
        untruncated = guarantee(poisson, DELTA, method=method).epsilon
        assert untruncated <= guarantee(truncated, DELTA, method=method).epsilon <= untruncated * 1.05
        tight = Repeat(TruncatedPoisson(0.1, 100, 1000, NoisyMax(1.0)), 40)
        assert guarantee(tight, DELTA, method=method).epsilon == math.inf


def test_fixed_size_batches_of_pure_releases_are_amplified() -> None:
    event = FixedSize(100, 10, NoisyMax(0.5))
    exact = math.log1p(0.1 * math.expm1(1.0))  # Balle, Barthe, Gaboardi 2018, Theorem 9; 0.5 doubled by replacing
    assert guarantee(event, DELTA, REPLACE_ONE, Method.BASIC).epsilon == pytest.approx(exact, rel=1e-9)
    with pytest.raises(NotProved, match="NoisyMax inside FixedSize; use method basic or advanced"):
        guarantee(event, DELTA, REPLACE_ONE)
    with pytest.raises(NotProved, match="NoisyMax inside Poisson or FixedSize"):
        guarantee(event, DELTA, REPLACE_ONE, Method.RDP)


def test_costs_in_the_currencies_of_filters() -> None:
    orders, exact_grid = (2.0, 8.0, 64.0), (2.0**-40,) * 3
    curves: list[tuple[Event, Bound]] = [
        (NoisyMax(0.5), pure.rdp_pure),
        (BoundedRange(0.5), pure.rdp_bounded_range),
    ]
    for event, curve in curves:
        found = np.array(costs.rdp(Repeat(event, 3), ADD_REMOVE, orders, exact_grid))
        assert np.all(found >= 3 * curve(0.5, orders))
        assert found == pytest.approx(3 * curve(0.5, orders), rel=1e-6)
    (rho,) = costs.rho(Compose((NoisyMax(0.5), BoundedRange(0.5), Laplace(2.0))), ADD_REMOVE, 2.0**-40)
    assert rho == pytest.approx((1 + 1 / 4 + 1) * 0.5**2 / 2, rel=1e-9)
    (replaced,) = costs.rho(BoundedRange(0.5), REPLACE_ONE, 2.0**-40)
    assert replaced == pytest.approx(1 / 8, rel=1e-9)
    search = Selection(Gaussian(4.0), PoissonTrials(3.0))
    (cost,) = costs.rdp(search, ADD_REMOVE, (8.0,), (2.0**-40,))
    assert 8 / (2 * 16) < cost < math.inf
    with pytest.raises(NotProved, match="Selection has no proved rho"):
        costs.rho(search, ADD_REMOVE, 2.0**-40)
    for event in (NoisyMax(0.5), BoundedRange(0.5), Laplace(2.0), search):
        with pytest.raises(NotProved, match="no exact mu"):
            costs.mu_squared(event, ADD_REMOVE, 2.0**-40)
    for sampled in (Poisson(0.1, NoisyMax(0.5)), Poisson(0.1, search)):
        with pytest.raises(NotProved, match="inside Poisson"):
            costs.rdp(sampled, ADD_REMOVE, orders, exact_grid)
        with pytest.raises(NotProved, match="nothing from sampling"):
            costs.rho(sampled, ADD_REMOVE, 2.0**-40)
    with pytest.raises(NotProved, match="truncated batches cost part of delta"):
        costs.rdp(TruncatedPoisson(0.1, 160, 1000, NoisyMax(0.5)), ADD_REMOVE, orders, exact_grid)
