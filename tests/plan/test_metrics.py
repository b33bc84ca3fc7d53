"""What metrics on private rows cost, and in which order a plan releases them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from dp_accounting.dp_event import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from discreet.core.errors import BudgetExhausted
from discreet.core.events import Compose, Event, flatten, steps_of, tally
from discreet.plan import AllocationSampling, Metric, NoSampling, Plan, ShuffleSampling
from discreet.verification.checks import private_metrics

BASE: dict[str, Any] = {"population": 1000, "batch": 100, "steps": 60, "clip_norm": 1.0, "delta": 1e-5}
ACCURACY, LOSS = Metric(noise=20.0, every=20), Metric(kind="loss", noise=15.0, bound=2.0)
HELD = (Metric(noise=9.0, every=15, rows="holdout"), Metric(kind="size", noise=9.0, rows="holdout"))


def places(event: Event) -> list[Event]:
    return [part for part, count in flatten(event) for _ in range(count)]


def test_the_joint_price_is_that_of_another_library() -> None:
    """dp-accounting 0.6: the steps and the metrics as further Gaussians, composed as one."""
    plan = Plan.poisson(**BASE, noise_multiplier=2.0, metrics=[ACCURACY, LOSS])
    steps = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 60)
    metrics = [SelfComposedDpEvent(GaussianDpEvent(20.0), 3), GaussianDpEvent(15.0)]
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(ComposedDpEvent([steps, *metrics]))
    found = plan.guarantee()
    assert found.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)
    assert found.lower is not None
    assert found.lower <= accountant.get_epsilon(1e-5)
    alone = Plan.poisson(**BASE, noise_multiplier=2.0)
    assert found.epsilon > 1.005 * alone.guarantee().epsilon


def exact(mu: float, epsilon: float) -> float:
    """delta of a Gaussian (Balle and Wang 2018, theorem 8)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out", "replace_one"])
def test_the_dearer_part_counts_unless_a_row_may_change_parts(adjacency: str) -> None:
    """Without sampling all is Gaussian: the larger mu, or the root of the sum of squares, which no row may reach."""
    ratio = 2.0 if adjacency == "replace_one" else 1.0
    metric = Metric(noise=3.0, every=1, rows="holdout")
    for noise in (2.0, 7.0):
        plan = Plan.make(
            NoSampling(),
            population=100,
            steps=4,
            clip_norm=1.0,
            delta=1e-5,
            noise_multiplier=noise,
            adjacency=adjacency,
            metrics=[metric],
            holdout=0.2,
        )
        trained, held = 2 * ratio / noise, 2 * ratio / 3.0
        mu = math.hypot(trained, held) if adjacency == "replace_one" else max(trained, held)
        found = plan.guarantee()
        assert exact(mu, found.epsilon) <= 1e-5 <= exact(mu, found.epsilon / (1 + 6e-4))
        assert (found.lower is None) is (adjacency == "replace_one")
        if found.lower is not None:
            assert exact(mu, found.lower * (1 - 1e-9)) >= 1e-5


def test_calibration_leaves_the_noise_of_metrics_alone() -> None:
    plan = Plan.poisson(**BASE, metrics=[ACCURACY, LOSS]).calibrate(1.0)
    assert plan.metrics == (ACCURACY, LOSS)
    assert 0.998 < plan.guarantee().epsilon <= 1.0
    apart = Plan.poisson(**BASE, metrics=HELD, holdout=0.2).calibrate(1.0)
    assert 0.998 < apart.guarantee().epsilon <= 1.0
    free = Plan.poisson(**(BASE | {"population": 800})).calibrate(1.0)
    assert apart.noise == free.noise  # what is held out costs the steps nothing
    assert apart.population == pytest.approx(800)


SAMPLINGS: dict[str, Any] = {
    "poisson": (None, "add_remove", 1),
    "shuffle": (ShuffleSampling(batch=250), "zero_out", 4),
    "allocation": (AllocationSampling(period=3), "add_remove", 3),
}


def plan_of(name: str, periods: int, block: int, every: list[int | None]) -> Plan:
    sampling, adjacency, period = SAMPLINGS[name]
    kinds: list[Any] = [{"kind": "accuracy"}, {"kind": "loss", "bound": 1.0}]
    metrics = [Metric(noise=30.0 + i, every=None if n is None else n * period, **kinds[i]) for i, n in enumerate(every)]
    if metrics:
        metrics.append(Metric(kind="size", noise=33.0))
    settings_: dict[str, Any] = {"steps": periods * period, "adjacency": adjacency, "metrics": metrics}
    settings_ |= {"population": 1000, "clip_norm": 1.0, "delta": 1e-5, "noise_multiplier": 2.0}
    made = Plan.poisson(batch=100, **settings_) if sampling is None else Plan.make(sampling, **settings_)
    return made.model_copy(update={"block": block})


plans = st.builds(
    plan_of,
    st.sampled_from(list(SAMPLINGS)),
    st.integers(1, 12),
    st.integers(1, 9),
    st.lists(st.one_of(st.none(), st.integers(1, 13)), max_size=2),
)


@given(plan=plans)
@settings(max_examples=80, deadline=None)
def test_blocks_in_a_row_are_the_plan_and_the_verifier_derives_the_same(plan: Plan) -> None:
    taken: list[Event] = []
    position = 0
    while position < plan.charges:
        block = plan.next_block(position)
        assert plan.metric_at(position) is None  # a metric belongs to the block of the step before it
        for event in block:
            covered = len(steps_of(event))
            assert (plan.metric_at(position) is not None) == (event in [m.event for m in plan.metrics])
            position += covered
        taken.extend(block)
    assert taken == places(plan.event())
    assert tally(Compose(tuple(taken))) == tally(plan.event())
    with pytest.raises(BudgetExhausted, match=str(plan.charges)):
        plan.next_block(position)
    for metric in plan.metrics:
        times = 1 if metric.every is None else plan.steps // metric.every
        alone = all(m.every is not None and m.every > plan.steps for m in plan.metrics if m.kind != "size")
        assert taken.count(metric.event) == (0 if metric.kind == "size" and alone else times)
    facts = plan.model_dump(mode="json")
    assert private_metrics.all_events(facts) == private_metrics.stated({"event": "compose", "of": _runs(plan)})


def _runs(plan: Plan) -> list[dict[str, Any]]:
    from discreet.core.events.event_json import to_json

    return [{"event": "repeat", "count": 1, "of": to_json(event)} for event in places(plan.event())]


def test_a_prefix_holds_the_metrics_that_are_due() -> None:
    plan = Plan.poisson(**BASE, metrics=[ACCURACY, LOSS])
    assert plan.charges == 60 + 3 + 1
    assert places(plan.first_steps(20)).count(ACCURACY.event) == 0
    assert places(plan.first_steps(21)).count(ACCURACY.event) == 1
    assert places(plan.first_steps(64)) == places(plan.event())
