"""Budgets of single units: what a period costs, by closed forms, and both verifiers beside the library."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from discreet.accounting.account import guarantee
from discreet.accounting.adaptive.costs import mu_squared, rdp
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Individual, Poisson, Repeat, Selection
from discreet.core.events.event_json import to_json
from discreet.core.trials import NegativeBinomialTrials
from discreet.verification.recompute import decide, epsilon_bounds
from discreet.verification.standalone import verify


def delta_of(mu: float, epsilon: float) -> Any:
    """delta of mu-Gaussian DP at epsilon (Dong, Roth and Su 2019, Corollary 1), at 40 digits."""
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("steps", "full", "noise", "delta"), [(200, 50, 20.0, 1e-5), (10, 1, 0.7, 1e-9), (7, 7, 9.0, 0.01)]
)
def test_a_period_is_gaussian_dp_with_the_budget_alone(
    steps: int, full: int, noise: float, delta: float, adjacency: Adjacency
) -> None:
    """mu = sqrt(full) / noise, twice that if a unit replaces another; the number of steps does not count."""
    mu = math.sqrt(full) / noise * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    found = guarantee(Individual(steps, full, Gaussian(noise)), delta, adjacency)
    assert delta_of(mu, found.epsilon) <= delta
    assert found.lower is not None
    assert delta_of(mu, found.lower * (1 - 1e-9)) >= delta
    assert found.epsilon <= found.lower * (1 + 1e-6)


def test_what_adds_up_is_mu_squared_and_renyi_divergence() -> None:
    """Of `full` steps: full / s^2 and a full / 2 s^2 (Mironov 2017, Proposition 7)."""
    event, near = Repeat(Individual(90, 12, Gaussian(5.0)), 3), Adjacency.ADD_REMOVE
    assert mu_squared(event, near, 2.0**-40)[0] == pytest.approx(36 / 25, rel=1e-9)
    assert rdp(event, near, (2.0, 9.0), (2.0**-40,) * 2) == pytest.approx((36 / 25, 4.5 * 36 / 25), rel=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Individual(3, 4, Gaussian(1.0)),
        lambda: Individual(3, 0, Gaussian(1.0)),
        lambda: Individual(3, 1, Gaussian(1.0, Query.COUNT)),
        lambda: Individual(3, 1, Poisson(0.1, Gaussian(1.0))),
        lambda: Individual(3, 1, Compose((Gaussian(1.0), Gaussian(1.0)))),
    ],
)
def test_what_is_not_proved_cannot_be_said(wrong: Any) -> None:
    """A count that one unit leaves and another joins later moves sums twice, where its ratio says once."""
    with pytest.raises(InputError):
        wrong()


def test_no_sampler_amplifies_it_and_a_search_may_be_over_it() -> None:
    with pytest.raises(NotProved, match="Individual inside Poisson"):
        guarantee(Poisson(0.1, Individual(9, 3, Gaussian(3.0))), 1e-5)
    trials = NegativeBinomialTrials(1.0, 0.1)
    over = [Selection(one, trials) for one in (Individual(9, 3, Gaussian(9.0)), Repeat(Gaussian(9.0), 3))]
    assert guarantee(over[0], 1e-5, method="rdp") == guarantee(over[1], 1e-5, method="rdp")


def random_events(count: int, seed: int) -> list[tuple[Event, float, Adjacency]]:
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        steps = int(np.exp(generator.uniform(0, math.log(1e5))))
        full = int(generator.integers(1, steps + 1))
        noise = math.sqrt(full) * float(np.exp(generator.uniform(math.log(0.2), math.log(30))))
        event = Compose((Repeat(Individual(steps, full, Gaussian(noise)), int(generator.integers(1, 5))),))
        found.append((event, float(10 ** generator.uniform(-9, -2)), list(Adjacency)[int(generator.integers(3))]))
    return found


def agree(count: int, seed: int) -> None:
    """Each by a route of its own: both accept what a plan claims, and neither accepts 2 % less."""
    for event, delta, adjacency in random_events(count, seed):
        claim, fields = guarantee(event, delta, adjacency), to_json(event)
        assert claim.lower is not None
        claimed = claim.epsilon * (1 + 5e-4)  # what a plan claims, for another accountant to confirm
        assert decide(fields, delta, adjacency.value, claimed).accepted
        assert not decide(fields, delta, adjacency.value, 0.98 * claim.epsilon, finest=0).accepted
        alone = verify.epsilon_of(verify.multiset(fields), delta, adjacency.value, claimed / 20000)
        assert claim.lower * (1 - 1e-9) <= alone <= claimed


def test_both_verifiers_agree() -> None:
    agree(6, 1)


def test_both_verifiers_agree_on_two_hundred_plans() -> None:
    agree(200, 3)


GAUSSIAN = {"event": "gaussian", "noise_multiplier": 3.0, "query": "clipped_sum"}


@pytest.mark.parametrize(
    "change",
    [
        {"full": 10},
        {"full": 0},
        {"full": 2.5},
        {"steps": True},
        {"of": GAUSSIAN | {"query": "count"}},
        {"of": {"event": "poisson", "rate": 0.1, "of": GAUSSIAN}},
        {"of": {"event": "compose", "of": [GAUSSIAN]}},
        {"of": 3},
    ],
)
def test_verifiers_price_no_other_event_of_this_name(change: dict[str, Any]) -> None:
    event = {"event": "individual", "steps": 9, "full": 3, "of": GAUSSIAN} | change
    with pytest.raises(InputError):
        epsilon_bounds(event, 1e-5, "add_remove", tolerance=1e-2)
    with pytest.raises((verify.Stop, TypeError, AttributeError)):
        verify.epsilon_of(verify.multiset({"event": "compose", "of": [event]}), 1e-5, "add_remove", 1e-2)
