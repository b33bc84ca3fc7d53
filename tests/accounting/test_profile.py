"""delta at an epsilon, and groups of units."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy import stats

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.answers import tradeoff
from discreet.accounting.answers.profile import delta_at, group_guarantee
from discreet.accounting.answers.tradeoff import from_mu, from_pairs
from discreet.accounting.pld.delta_profile import chord
from discreet.accounting.theories import gdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat


def sampled(rate: float, noise: float, steps: int) -> Event:
    return Repeat(Poisson(rate, Gaussian(noise)), steps)


def test_delta_agrees_with_dp_accounting() -> None:
    """dp-accounting 0.6.0, pessimistic on a grid of 1e-4."""
    step = PoissonSampledDpEvent(0.02, GaussianDpEvent(1.0))
    theirs = PLDAccountant().compose(SelfComposedDpEvent(step, 500))
    for epsilon in (0.0, 0.3, 1.0, 2.4):
        found = delta_at(sampled(0.02, 1.0, 500), epsilon)
        assert found.lower is not None
        assert found.lower <= theirs.get_delta(epsilon)
        assert found.delta == pytest.approx(theirs.get_delta(epsilon), rel=2e-3)
        assert found.delta <= found.lower * 1.003


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("method", [Method.PLD, Method.RDP, Method.ADVANCED, Method.CLT, Method.MOMENTS])
def test_delta_inverts_epsilon(method: Method, delta: float) -> None:
    event = sampled(0.02, 1.0, 500)
    epsilon = account(event, delta, method=method).epsilon
    found = delta_at(event, epsilon, method=method)
    assert found.delta == pytest.approx(delta, rel=0.05 if method is Method.PLD else 5e-3)
    assert account(event, found.delta * (1 + 1e-9), method=method).epsilon <= epsilon * 1.006
    assert found.kind == account(event, delta, method=method).kind


def test_without_sampling_delta_is_exact() -> None:
    found = delta_at(Repeat(Gaussian(4.0), 4), 1.0)
    assert (found.method, found.kind) == ("gaussian", "guarantee")
    assert found.delta == pytest.approx(gdp.delta_bounds(0.5, 1.0)[1], rel=1e-9)
    assert delta_at(Compose(()), 0.0).delta == 0
    assert delta_at(Gaussian(1e-200), 1.0).delta == 1.0


def test_bad_epsilons_and_methods() -> None:
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon"):
            delta_at(Gaussian(1.0), bad)
    with pytest.raises(NotProved):
        delta_at(sampled(0.1, 1.0, 5), 1.0, method=Method.GDP)


@pytest.mark.parametrize("size", [2, 5])
def test_groups_without_sampling_have_k_mu(size: int) -> None:
    found = group_guarantee(Repeat(Gaussian(10.0), 4), size, 1e-5)
    assert found.epsilon == pytest.approx(gdp.epsilon_bounds(size * 0.2, 1e-5)[1], rel=1e-9)
    assert found.method == "gaussian"


def test_groups_with_sampling() -> None:
    """Far below the classic 2 eps at (1 + e^eps) delta (Vadhan 2017, Lemma 2.2), above what one unit has."""
    event, delta = sampled(0.02, 1.0, 500), 1e-5
    one, two = group_guarantee(event, 1, delta), group_guarantee(event, 2, delta)
    assert one == guarantee(event, delta)
    unit = guarantee(event, delta / 100).epsilon
    assert (1 + math.exp(unit)) * delta / 100 < delta
    assert one.epsilon < two.epsilon <= 2 * unit
    clt = 2 * gdp.clt_mu([(0.02, 1.0, 500)])
    assert two.epsilon == pytest.approx(gdp.epsilon_bounds(clt, delta)[1], rel=0.25)
    assert group_guarantee(event, 4, delta).epsilon > two.epsilon


@pytest.mark.parametrize(
    ("rate", "noise", "size", "delta"), [(0.5, 0.6, 8, 1e-10), (0.9, 1.0, 8, 1e-10), (0.9, 0.6, 8, 1e-6)]
)
def test_a_group_whose_members_add_the_same_gets_no_more_than_it_is_promised(
    rate: float, noise: float, size: int, delta: float
) -> None:
    """A threshold told such groups apart at this epsilon with up to 5,000 times delta: deltas near 0 were lost."""
    found = group_guarantee(Poisson(rate, Gaussian(noise)), size, delta)
    threshold = np.linspace(0, size + 40 * noise, 20_001)
    drawn = stats.binom.pmf(np.arange(size + 1), size, rate)
    seen = sum(share * stats.norm.sf((threshold - k) / noise) for k, share in enumerate(drawn))
    excess = seen - np.exp(np.minimum(found.epsilon + stats.norm.logsf(threshold / noise), 50))
    assert np.max(excess) <= delta


def test_a_curve_is_nowhere_below_its_knots() -> None:
    """Behind a knot at delta 1 a chord ended at 0, and not at the delta of its right end, if that was below 1e-16."""
    epsilons, deltas = np.array([0.0, 6.0, 6.1, 9.0]), np.array([1.0, 1e-17, 1e-40, 1e-90])
    assert np.all(chord(epsilons, deltas, epsilons) >= deltas)
    just_before = np.array([6.0 * (1 - 2.0**-52)])
    assert chord(epsilons, deltas, just_before)[0] >= 1e-17


@pytest.mark.parametrize("gap", [709.7, 709.8, 710.1, 710.4, 710.5, 2000.0, np.inf])
def test_a_curve_between_knots_far_apart_is_nowhere_zero(gap: float) -> None:
    """Where e^gap just overflows, both shares of a chord were finite numbers divided by infinity."""
    at = min(gap, 710.3) - np.linspace(0.01, 0.8, 80)
    assert np.all(chord(np.array([0.0, gap]), np.array([1e-3, 1e-6]), at) >= 1e-6)


@pytest.mark.parametrize("size", [100, 10**9, 10**400])
def test_large_groups_have_no_protection(size: int) -> None:
    """A hundred units were refused as if an epsilon were missing, 10^4 took minutes, 10^400 overflowed."""
    assert from_pairs(np.array([0.7]), np.array([1e-4])).group(size).delta(np.array([1.0]))[0] == 1
    assert from_mu(1.0).group(size).epsilon(1e-5) > 100


def test_a_large_group_is_a_group_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = from_pairs(np.array([1e-4]), np.array([1e-10]))
    large = [curve.group(size).epsilon(1e-4) for size in (300, 1000)]
    monkeypatch.setattr(tradeoff, "_LINKS", 10**4)
    one_by_one = [curve.group(size).epsilon(1e-4) for size in (300, 302, 1000, 1004)]
    assert one_by_one[0] * (1 - 1e-9) <= large[0] <= one_by_one[1] * (1 + 1e-9)
    assert one_by_one[2] * (1 - 1e-9) <= large[1] <= one_by_one[3] * (1 + 1e-9)


def test_groups_are_refused_where_nothing_is_proved() -> None:
    with pytest.raises(NotProved, match="pld"):
        group_guarantee(Gaussian(1.0), 2, 1e-5, method=Method.RDP)
    with pytest.raises(NotProved):
        group_guarantee(sampled(0.1, 1.0, 5), 2, 1e-5, Adjacency.REPLACE_ONE)
    for size in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="group"):
            group_guarantee(Gaussian(1.0), size, 1e-5)  # type: ignore[arg-type]
