"""Adaptive plans: what is refused when they are made, what they price, and what they guarantee."""

from __future__ import annotations

import math
from typing import Any

import pytest

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Epoch, Gaussian, Poisson, Repeat, TruncatedPoisson, tally
from discreet.plan import (
    AdaptivePlan,
    Constant,
    Controls,
    Counts,
    FixedSizeSampling,
    NoiseByProgress,
    NoSampling,
    PoissonSampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
    ValidationDecay,
)
from discreet.plan.adaptive.adaptive_plan import loosened
from discreet.plan.pydantic_base import validate
from discreet.verification.recompute import filters as independent

POISSON = PoissonSampling(rate=0.1)
KINDS = ["rdp-curve", "rdp-order", "zcdp", "gdp"]


def adaptive(sampling: Any = POISSON, **changes: Any) -> AdaptivePlan:
    settings: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "population": 1000,
        "clip_norm": 1.0,
        "policy": Constant(),
        "noise_multiplier": 2.0,
        "most_steps": 500,
    }
    return AdaptivePlan.make(sampling, **(settings | changes))


@pytest.mark.parametrize("kind", KINDS)
def test_the_guarantee_is_just_within_the_budget_and_the_independent_conversion_agrees(kind: str) -> None:
    """`recompute.filters` converts limits with code of its own."""
    sampling: Any = POISSON if kind.startswith("rdp") else NoSampling()
    plan = adaptive(sampling, filter_kind=kind, noise_multiplier=30.0)
    promised = plan.guarantee()
    assert 2.0 * (1 - 2e-3) < promised.epsilon <= 2.0
    assert (promised.delta, promised.method, promised.lower) == (1e-5, f"{kind}-filter", None)
    stated = plan.model_dump(mode="json")["filter"]
    again = independent.epsilon(stated, 1 + 5e-4, 1e-5 * (1 - 1e-9))
    assert again == pytest.approx(promised.epsilon, rel=1e-6)
    assert independent.epsilon(stated, 1 + 4e-4, 1e-5 * (1 - 1e-9)) < promised.epsilon
    assert all(a < b for a, b in zip(plan.filter.limits, loosened(plan.filter).limits, strict=True))


def test_plans_survive_json_and_have_fingerprints() -> None:
    plan = adaptive(policy=NoiseByProgress(), counts=Counts(), every=10.0)
    again = validate(AdaptivePlan, plan.model_dump(mode="json"), "plan")
    assert again == plan
    assert again.fingerprint() == plan.fingerprint()
    other = plan.model_copy(update={"most_steps": 501})
    assert other.fingerprint() != plan.fingerprint()
    assert plan.with_initial_state("sha256:00").initial_state == "sha256:00"


def test_what_a_block_charges_is_what_the_knobs_say() -> None:
    plan = adaptive(block=50, every=10.0)
    controls = Controls(1.5, 200.0)
    event = Poisson(0.2, Gaussian(1.5))
    assert plan.event(controls) == event
    assert plan.phase_steps(controls) == 50
    assert plan.phase_steps(plan.start) == 100
    assert plan.block_of(controls, 0, 20) == (event,) * 20
    assert plan.block_of(controls, 490, 50) == (event,) * 10
    assert plan.block_of(controls, 500, 50) == ()
    draw = plan.draw_of(event)
    assert (draw.divisor, draw.sampler.event(Gaussian(1.5))) == (200.0, event)
    assert draw.largest_batch > plan.draw_of(plan.event(plan.start)).largest_batch


def test_epochs_of_disjoint_batches_are_charged_whole() -> None:
    plan = adaptive(ShuffleSampling(batch=100), adjacency="replace_one", block=3, most_steps=25, noise_multiplier=20.0)
    event = Epoch(Compose((Repeat(Gaussian(20.0), 10),)))
    assert plan.event(plan.start) == event
    assert plan.block_of(plan.start, 0, 10) == (event,)
    assert plan.block_of(plan.start, 10, 10) == (event,)
    assert plan.block_of(plan.start, 20, 10) == ()
    assert plan.filter.cost(event)[0] == pytest.approx((2 / 20.0) ** 2)
    with pytest.raises(InputError, match="keeps its batches"):
        plan.checked(Controls(20.0, 50.0))


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (math.nan, "returns Controls"),
        ((1.0, 100.0), "returns Controls"),
        (Controls(2.0, 1000.1), "more than the population"),
        (Controls(2.0, 1e-30), "rate must be"),
    ],
)
def test_knobs_that_cannot_be_are_refused(decided: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adaptive().checked(decided)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, True, "2"])
def test_knobs_are_finite_and_positive(value: Any) -> None:
    with pytest.raises(InputError, match="noise_multiplier"):
        Controls(value, 10.0)
    with pytest.raises(InputError, match="expected_batch"):
        Controls(1.0, value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": NoiseByProgress()}, "looks at counts"),
        ({"adjacency": "replace_one"}, "under (adjacency )?replace_one"),
        ({"filter_kind": "basic"}, "unknown filter 'basic'"),
        ({"filter_kind": "zcdp"}, "rdp filter"),
        ({"every": 0.0}, "every"),
        ({"noise_multiplier": 0.1, "course": Poisson(0.1, Gaussian(2.0))}, "not even one step"),
        ({"most_steps": 0}, "most_steps"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"population": 50, "sampling": NoSampling(), "every": 1.5}, "whole number of epochs"),
        ({"unit": "user"}, "protects single rows; use a fixed Plan for users"),
        ({"unit": "household"}, "unit"),
    ],
)
def test_plans_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    sampling = changes.pop("sampling", POISSON)
    with pytest.raises((InputError, NotProved), match=message):
        adaptive(sampling, **changes)


@pytest.mark.parametrize("sampling", [FixedSizeSampling(batch=10), TruncatedPoissonSampling(rate=0.1, capacity=200)])
def test_samplers_that_no_filter_prices_are_refused(sampling: Any) -> None:
    with pytest.raises((InputError, NotProved)):
        adaptive(sampling, adjacency=sampling.ADJACENCIES[0])


def test_a_filter_of_another_adjacency_is_refused() -> None:
    facts = adaptive().model_dump(mode="json")
    facts["filter"]["adjacency"] = Adjacency.ZERO_OUT.value
    with pytest.raises(InputError, match="another adjacency"):
        validate(AdaptivePlan, facts, "plan")


def test_too_many_steps_for_what_is_set_aside_prove_nothing() -> None:
    """Most steps bound the float slack on every path: with 10^90 of them, delta has no room."""
    plan = adaptive(policy=ValidationDecay()).model_copy(update={"most_steps": 10**90})
    assert plan.guarantee().epsilon == math.inf


def test_counts_cost_what_one_gaussian_costs() -> None:
    assert Counts().event == Gaussian(100.0, "count")  # type: ignore[arg-type]
    sampled = Counts(noise=5.0, rate=0.25).event
    assert sampled == Poisson(0.25, Gaussian(5.0, "count"))  # type: ignore[arg-type]
    assert not isinstance(sampled, TruncatedPoisson)
    assert list(tally(sampled)) == [sampled]
