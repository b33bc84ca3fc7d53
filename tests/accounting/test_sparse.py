"""What a sparse histogram costs: its part of delta, against mpmath and the exact profile, in every accountant."""

from __future__ import annotations

import math

import mpmath
import pytest

from discreet.accounting.account import Method, guarantee
from discreet.accounting.adaptive import costs
from discreet.accounting.answers.profile import delta_at
from discreet.accounting.theories.sparse import escape, left_of, threshold_for
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat, Selection, SparseHistogram
from discreet.core.events.event_json import to_json
from discreet.core.trials import PoissonTrials
from discreet.plan import Plan
from discreet.verification.recompute import epsilon_bounds
from discreet.verification.recompute.events import parts
from discreet.verification.standalone import verify as reviewer

STEPS = Repeat(Poisson(0.02, Gaussian(1.1)), 200)


def tail(noise: float, threshold: float) -> mpmath.mpf:
    """P(1 + noise N(0, 1) > threshold), to 60 digits."""
    with mpmath.workdps(60):
        return mpmath.erfc((mpmath.mpf(threshold) - 1) / mpmath.mpf(noise) / mpmath.sqrt(2)) / 2


def escapes(event: SparseHistogram) -> list[float]:
    """By the library, by the verifier in the library, and by verify.py."""
    alone = reviewer.multiset(to_json(event))
    return [escape(event), parts(to_json(event), "add_remove").escapes, reviewer.parts_of(alone, "add_remove")[1]]


@pytest.mark.parametrize("noise", [0.3, 1.0, 10.0, 12345.678])
@pytest.mark.parametrize("far", [0.1, 1.0, 6.0, 13.7, 37.0])
def test_the_tail_is_bounded_from_above_and_tightly(noise: float, far: float) -> None:
    event = SparseHistogram(noise, 1 + noise * far)
    exact = tail(event.noise_multiplier, event.threshold)
    for found in escapes(event):
        assert exact <= found <= float(exact) * (1 + 1e-9) + 2e-300


def test_the_threshold_is_the_least_that_will_do() -> None:
    for noise, chance in ((10.0, 1e-9), (0.2, 1e-9), (333.3, 1e-4), (10.0, 1e-290), (10.0, 0.3)):
        found = threshold_for(noise, chance)
        assert found == math.floor(found) >= 2
        assert tail(noise, found) <= chance
        assert found == 2 or tail(noise, found - 1) > chance
    assert left_of(1e-6, 1e-6) == 0.0
    with pytest.raises(InputError, match="above 1"):
        SparseHistogram(1.0, 1.0)


def exact(epsilon: float, noise: float, threshold: float) -> mpmath.mpf:
    """delta(epsilon) of one sparse histogram under add/remove, for a large count or for one row alone (0 and 1).

    For one row alone, and all of delta at any epsilon >= 0, the tail (Wilkins et al. 2024 have the two cases).
    """
    with mpmath.workdps(40):
        mu, e = 1 / mpmath.mpf(noise), mpmath.mpf(epsilon)
        known = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        return max(known, tail(noise, threshold))


def test_one_alone_against_its_exact_profile() -> None:
    """Above the larger of the two cases, below their sum; and no claim where the tail alone is more than delta."""
    event = SparseHistogram(4.0, 21.0)  # 5 deviations: 2.9e-7
    for delta in (3e-7, 1e-6, 1e-4):
        found = guarantee(event, delta)
        assert exact(found.epsilon, 4.0, 21.0) <= delta
        assert found.lower is not None
        assert exact(found.lower * (1 - 1e-9), 4.0, 21.0) >= delta * (1 - 1e-6)
        alone = guarantee(Gaussian(4.0, Query.HISTOGRAM), delta - escape(event))
        assert found.epsilon == pytest.approx(alone.epsilon, rel=1e-9)
    assert guarantee(event, 2.8e-7).epsilon == math.inf
    both = float(exact(1.0, 4.0, 1e9) + tail(4.0, 21.0))
    assert both <= delta_at(event, 1.0).delta <= 1.001 * both


def test_beside_steps_every_accountant_takes_it_off_delta() -> None:
    """Three accountants that share no code; each is the plain histogram beside the steps, at what is left of delta."""
    event, delta, adjacency = SparseHistogram(8.0, 1 + 8 * 4.8), 2e-6, Adjacency.ADD_REMOVE  # two of 7.9e-7
    whole: Event = Compose((Repeat(event, 2), STEPS))
    plain: Event = Compose((Repeat(Gaussian(8.0, Query.HISTOGRAM), 2), STEPS))
    left = delta - 2 * float(tail(8.0, event.threshold))
    for method in (Method.PLD, Method.RDP, Method.BASIC):
        found = guarantee(whole, delta, adjacency, method).epsilon
        assert found == pytest.approx(guarantee(plain, left, adjacency, method).epsilon, rel=1e-6)
        assert found > guarantee(plain, delta, adjacency, method).epsilon * 1.01
    certified = guarantee(whole, delta, adjacency)
    second = epsilon_bounds(to_json(whole), delta, adjacency.value, tolerance=1e-3)
    third = reviewer.epsilon_of(reviewer.multiset(to_json(whole)), delta, adjacency.value, 1e-3)
    assert certified.lower is not None
    assert certified.lower == pytest.approx(guarantee(plain, delta, adjacency).lower)
    assert second.lower <= certified.epsilon
    assert certified.lower <= second.upper
    assert second.upper == pytest.approx(certified.epsilon, abs=4e-3)
    assert third == pytest.approx(certified.epsilon, abs=4e-3)


def test_nobody_claims_anything_where_delta_does_not_suffice() -> None:
    whole = Compose((SparseHistogram(8.0, 9.0), Poisson(0.1, Gaussian(2.0))))  # 0.16
    assert guarantee(whole, 0.1).epsilon == math.inf
    assert epsilon_bounds(to_json(whole), 0.1, "add_remove", tolerance=1e-2).upper == math.inf
    with pytest.raises(reviewer.Stop, match="NOT COVERED"):
        reviewer.epsilon_of(reviewer.multiset(to_json(whole)), 0.1, "add_remove", 1e-2)


def test_replacing_a_row_moves_two_counts() -> None:
    event = SparseHistogram(4.0, 30.0)
    found = guarantee(event, 1e-6, Adjacency.REPLACE_ONE).epsilon
    assert found == pytest.approx(guarantee(Gaussian(4.0 / math.sqrt(2)), 1e-6).epsilon, rel=1e-4)
    second = epsilon_bounds(to_json(event), 1e-6, "replace_one", tolerance=1e-4)
    assert second.upper == pytest.approx(found, rel=1e-6)


def test_where_no_theorem_adds_up_deltas_it_is_refused() -> None:
    event = SparseHistogram(4.0, 30.0)
    for inner in (Poisson(0.1, event), Selection(event, PoissonTrials(5))):
        with pytest.raises(NotProved, match="SparseHistogram inside"):
            guarantee(inner, 1e-6, method=Method.RDP)
    with pytest.raises(NotProved, match="no filter or odometer adds up"):
        costs.rho(event, Adjacency.ADD_REMOVE, 2.0**-40)
    with pytest.raises(InputError, match="inside 'poisson'"):
        epsilon_bounds(to_json(Poisson(0.1, event)), 1e-6, "add_remove", tolerance=1e-3)
    with pytest.raises(reviewer.Stop, match="a draw inside a draw"):
        reviewer.epsilon_of(reviewer.multiset(to_json(Poisson(0.1, event))), 1e-6, "add_remove", 1e-3)


def test_a_plan_with_one_is_calibrated_and_drawn() -> None:
    """Within its budget; and its trade-off function gives no more power than epsilon and delta do."""
    made = Plan.poisson(
        population=2000, batch=100, steps=50, clip_norm=1.0, delta=1e-6, before=[SparseHistogram(10.0, 60.0)]
    ).calibrate(2.0)
    assert 1.99 < made.guarantee().epsilon <= 2.0
    curve = made.trade_off()
    assert float(curve.delta([made.guarantee().epsilon])[0]) <= 1e-6 * 1.05
    assert float(curve.delta([50.0])[0]) >= escape(SparseHistogram(10.0, 60.0))
