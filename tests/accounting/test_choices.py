"""Pure and bounded-range releases against closed forms, exact enumeration of small mechanisms, and fifty digits."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from discreet.accounting.account import Method, guarantee
from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.epsilon_interval import epsilon_interval
from discreet.accounting.theories import pure
from discreet.core.adjacency import Adjacency, Query
from discreet.core.events import BoundedRange, Compose, Gaussian, NoisyMax, Poisson, Repeat

mp.mp.dps = 50
DELTA = 1e-5
ORDERS = [1.01, 1.5, 2.0, 3.3, 8.0, 64.0, 700.0]
EPSILONS = [1e-4, 0.03, 0.5, 2.0, 9.0, 60.0]
Distribution = np.ndarray


def renyi(p: Distribution, q: Distribution, order: float) -> float:
    return float(logsumexp(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1))


def hockey_stick(p: Distribution, q: Distribution, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def exponential_mechanism(scores: Distribution, rate: float) -> Distribution:
    weights = np.exp(rate * (scores - scores.max()))
    return weights / weights.sum()


def member(t: float, epsilon: float) -> tuple[Distribution, Distribution]:
    """The two-point pair with losses t and t - epsilon."""
    q = math.expm1(epsilon - t) / math.expm1(epsilon)  # q e^t + (1 - q) e^(t - eps) = 1
    return np.array([q * math.exp(t), (1 - q) * math.exp(t - epsilon)]), np.array([q, 1 - q])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", ORDERS)
def test_renyi_of_pure_is_that_of_randomised_response(epsilon: float, order: float) -> None:
    e, a = mp.mpf(epsilon), mp.mpf(order)
    p = mp.exp(e) / (1 + mp.exp(e))
    exact = mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    found = float(pure.rdp_pure(epsilon, [order])[0])
    assert exact <= found
    loose = min(epsilon, order * epsilon**2 / 2)
    assert found <= max(float(exact) * (1 + 1e-8), loose * (1 + 1e-9) if epsilon < 1e-3 else 0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", ORDERS)
def test_renyi_of_bounded_range_is_the_worst_over_all_positions_of_the_range(epsilon: float, order: float) -> None:
    e, a = mp.mpf(epsilon), mp.mpf(order)

    def at(t: mp.mpf) -> mp.mpf:
        q = mp.expm1(e - t) / mp.expm1(e)
        return mp.log(q * mp.exp(a * t) + (1 - q) * mp.exp(a * (t - e))) / (a - 1)

    positions = [e * k / 200 for k in range(201)] + [e - e * mp.mpf(10) ** (-mp.mpf(k) / 40) for k in range(200)]
    worst = max(at(t) for t in positions)
    found = float(pure.rdp_bounded_range(epsilon, [order])[0])
    assert worst <= found
    if epsilon > 0.02:
        assert found <= float(worst) * (1 + 2e-4)
    else:
        assert found <= order * epsilon**2 / 8 * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 3e-7, 1.5e-6, 6e-5, 5e-3])
@pytest.mark.parametrize("above", [1e-3, 4e-3, 0.012, 0.02, 0.06])
def test_renyi_of_a_faint_bounded_range_near_order_1_is_not_understated(epsilon: float, above: float) -> None:
    """Large logarithms cancel there, up to a bound of less than nothing; the closed form at fifty digits does not."""
    e, a = mp.mpf(epsilon), mp.mpf(1 + above)
    rise, fall = -mp.expm1(-a * e), -mp.exp(-e) * mp.expm1(-(a - 1) * e)
    t = mp.log((a - 1) * rise / (a * fall))
    exact = mp.log((mp.exp((a - 1) * t) * rise - mp.exp(a * t) * fall) / -mp.expm1(-e)) / (a - 1)
    found = float(pure.rdp_bounded_range(epsilon, [1 + above])[0])
    assert exact <= found <= (1 + above) * epsilon**2 / 8 * (1 + 1e-9)


@settings(max_examples=80, derandomize=True)
@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=6),
    st.data(),
    st.floats(0.05, 4.0),
    st.booleans(),
)
def test_the_exponential_mechanism_keeps_to_its_bounded_range(
    scores: list[int], data: st.DataObject, epsilon: float, one_sided: bool
) -> None:
    """Every neighbour of small score vectors: range, Rényi bound, profile, rho."""
    move = st.integers(0, 1) if one_sided else st.integers(-1, 1)
    moved = [score + data.draw(move) for score in scores]
    rate = epsilon if one_sided else epsilon / 2
    p, q = (exponential_mechanism(np.array(values, float), rate) for values in (scores, moved))
    loss = np.log(p / q)
    assert loss.max() - loss.min() <= epsilon * (1 + 1e-9) + 1e-12
    for one, other in ((p, q), (q, p)):
        for order in (1.1, 2.0, 17.0):
            assert renyi(one, other, order) <= pure.rdp_bounded_range(epsilon, [order])[0] + 1e-12
            assert renyi(one, other, order) <= order * epsilon**2 / 8 + 1e-12
        for x in (0.0, 0.3 * epsilon, 0.9 * epsilon):
            profile = (1 - math.exp((x - epsilon) / 2)) ** 2 / -math.expm1(-epsilon)
            assert hockey_stick(one, other, x) <= profile + 1e-12


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.01, 1e-4])
def test_one_choice_costs_what_its_profile_says(epsilon: float, delta: float) -> None:
    """delta = (1 - e^((x - eps) / 2))^2 / (1 - e^-eps), solved for x; and randomised response for a noisy max."""
    ranged = max(0.0, epsilon + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-epsilon))))
    p = 1 / (1 + math.exp(-epsilon))
    response = max(0.0, math.log((p - delta) / (1 - p)))
    for loss, exact in ((BoundedLoss(epsilon, True, 1), ranged), (BoundedLoss(epsilon, False, 1), response)):
        found = epsilon_interval([], delta, lambda _: 1e-6, [loss]).upper
        assert exact <= found <= exact * 1.001 + 1e-4
    assert ranged <= guarantee(BoundedRange(epsilon), delta).epsilon <= ranged * 1.003 + 2e-4


def exact_with_gaussian(epsilon: float, count: int, mu: float, x: mp.mpf) -> mp.mpf:
    """delta(x) of `count` randomised responses and one Gaussian: a binomial mixture of Gaussian profiles."""
    p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    total = mp.mpf(0)
    for ups in range(count + 1):
        at = x - (2 * ups - count) * epsilon
        weight = mp.binomial(count, ups) * p**ups * (1 - p) ** (count - ups)
        profile = mp.ncdf(mu / 2 - at / mu) - mp.exp(at) * mp.ncdf(-mu / 2 - at / mu) if mu else max(0, 1 - mp.exp(at))
        total += weight * profile
    return total


@pytest.mark.parametrize(("epsilon", "count", "mu"), [(0.1, 40, 0.0), (1.0, 7, 0.0), (0.1, 40, 0.5), (0.7, 5, 1.5)])
@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_noisy_maxima_with_a_gaussian_against_the_exact_mixture(
    epsilon: float, count: int, mu: float, delta: float
) -> None:
    parts = [Repeat(NoisyMax(epsilon), count)] + ([Gaussian(1 / mu)] if mu else [])
    found = guarantee(Compose(tuple(parts)), delta)
    assert exact_with_gaussian(mp.mpf(epsilon), count, mp.mpf(mu), mp.mpf(found.epsilon)) <= delta
    assert exact_with_gaussian(mp.mpf(epsilon), count, mp.mpf(mu), mp.mpf(found.epsilon) * mp.mpf("0.985")) > delta
    assert found.lower is not None
    assert found.lower <= found.epsilon


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_no_composition_of_members_of_the_class_exceeds_the_bound(epsilon: float, count: int) -> None:
    """All compositions of two-point mechanisms, whatever the positions of their ranges."""
    positions = [k / 6 * epsilon for k in range(1, 6)]
    for method in (Method.PLD, Method.RDP, Method.ZCDP):
        for delta in (1e-2, 1e-4):
            bound = guarantee(Repeat(BoundedRange(epsilon), count), delta, method=method).epsilon
            for chosen in itertools.combinations_with_replacement(positions, count):
                p = q = np.ones(1)
                for t in chosen:
                    one, other = member(t, epsilon)
                    p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel()
                assert hockey_stick(p, q, bound) <= delta


def test_a_choice_costs_a_quarter_of_a_noisy_max_in_zcdp() -> None:
    """(eps^2 / 8)-zCDP against eps^2 / 2: four choices of the exponential mechanism cost one noisy maximum."""
    four, one = (
        guarantee(Repeat(BoundedRange(0.4), 4), DELTA, method=Method.ZCDP),
        guarantee(NoisyMax(0.4), DELTA, method=Method.ZCDP),
    )
    assert four.epsilon == pytest.approx(one.epsilon, rel=1e-9)


@pytest.mark.parametrize("kind", [BoundedRange, NoisyMax])
@pytest.mark.parametrize("query", list(Query))
def test_a_replacement_is_a_removal_and_an_addition(kind: type[NoisyMax], query: Query) -> None:
    """Twice the price, or the same where the event says that replacing costs no more (count)."""
    alike = kind(0.5 if query is Query.COUNT else 1.0)
    for method in (Method.PLD, Method.RDP, Method.ZCDP, Method.BASIC):
        replaced = guarantee(kind(0.5, query), DELTA, Adjacency.REPLACE_ONE, method)
        assert replaced.epsilon == pytest.approx(guarantee(alike, DELTA, method=method).epsilon, rel=1e-9)


def test_choices_on_a_poisson_draw_are_amplified() -> None:
    """Exactly enumerated: the sampled randomised response against itself without the unit."""
    rate, epsilon, delta = 0.2, 1.0, 1e-3
    bound = guarantee(Poisson(rate, Compose((NoisyMax(0.6), BoundedRange(0.4)))), delta)
    p = 1 / (1 + math.exp(-epsilon))
    with_unit, without = np.array([p, 1 - p]), np.array([1 - p, p])
    mixed = rate * with_unit + (1 - rate) * without
    assert max(hockey_stick(mixed, without, bound.epsilon), hockey_stick(without, mixed, bound.epsilon)) <= delta
    assert bound.epsilon <= math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-200, 1e-9, 50.0, 5e3, 1e300])
@pytest.mark.parametrize("kind", [BoundedRange, NoisyMax])
def test_extremes_are_bounds(kind: type[NoisyMax], epsilon: float) -> None:
    for method in (Method.PLD, Method.RDP, Method.ZCDP, Method.BASIC):
        found = guarantee(kind(epsilon), DELTA, method=method).epsilon
        least = math.log((1 - DELTA) / DELTA) if epsilon == 1e300 else 0.0
        assert least <= found
        if method is Method.BASIC:
            assert found == pytest.approx(epsilon)
