"""Queries before the first step in plans: what they cost, and which places they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from adaptive_runs import adaptive
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from first_runs import COMPONENTS, first_plan, training_after
from problems import linear, tiny_plan

from discreet import guarantee, publish, verify
from discreet.core.adjacency import Query
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.events import (
    BoundedRange,
    Compose,
    Epoch,
    Event,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    SparseHistogram,
    flatten,
)
from discreet.core.trials import PoissonTrials
from discreet.plan import AdaptiveClipping, Metric, NoSampling, Plan, ShuffleSampling
from discreet.plan.pre_queries import Answered
from discreet.plan.pricing import CONFIRMABLE
from discreet.queries import Count
from discreet.training import answered_first
from discreet.verification.standalone import verify as reviewer

STEP = Poisson(0.5, Gaussian(1.5))


def unrolled(event: Event) -> list[Event]:
    return [part for part, count in flatten(event) for _ in range(count)]


def test_they_come_first_and_are_in_the_total() -> None:
    plan = first_plan(before=[Compose((COMPONENTS, Repeat(Gaussian(9.0, Query.COUNT), 2)))])
    count = Gaussian(9.0, Query.COUNT)
    assert plan.before == (COMPONENTS, count, count)
    assert (plan.steps, plan.charges) == (7, 10)
    assert unrolled(plan.event()) == [COMPONENTS, count, count, *[STEP] * 7]
    assert [plan.step_at(k) for k in (0, 3, 4, 9, 10)] == [0, 0, 1, 6, 7]
    assert plan.next_block(3) == (STEP,) * 3
    with pytest.raises(PrivacyViolation, match="has not answered"):
        plan.next_block(2)
    together = guarantee(Compose((COMPONENTS, count, count, Repeat(STEP, 7))), 1e-5 * (1 - 1e-9)).epsilon
    assert plan.guarantee().epsilon == pytest.approx(together * CONFIRMABLE, rel=1e-6)
    assert plan.guarantee().epsilon > 1.03 * tiny_plan().guarantee().epsilon


def test_the_total_of_table_ii_by_dp_accounting() -> None:
    """dp-accounting 0.6: rho 0.78125 in epochs of disjoint batches, and 60 components with multiplier 16: 5.688.

    Under zero-out an epoch of disjoint batches costs one Gaussian, which is how it is told to that accountant.
    """
    noise, delta = [10 * 0.99**t for t in range(71)], 1e-5
    scale = (sum(z**-2 for z in noise) / (2 * 0.78125)) ** 0.5
    told = [dp_event.GaussianDpEvent(scale * z) for z in noise]
    accountant, found = PLDAccountant(value_discretization_interval=1e-4), []
    for events in (told, [dp_event.GaussianDpEvent(16.0)]):
        found.append(accountant.compose(dp_event.ComposedDpEvent(events)).get_epsilon(delta))
    assert found[1] == pytest.approx(5.688, abs=1e-3)
    for before, other in (((), found[0]), ((Gaussian(16.0, Query.COVARIANCE),), found[1])):
        plan = Plan.make(
            ShuffleSampling(batch=600),
            population=60_000,
            steps=7100,
            clip_norm=4.0,
            delta=delta,
            adjacency="zero_out",
            noise_multiplier=[(scale * z, 100) for z in noise],
            before=before,
        )
        assert plan.guarantee().epsilon == pytest.approx(other * CONFIRMABLE, rel=1e-4)


def test_calibrated_noise_leaves_room_for_them() -> None:
    plan = first_plan().calibrate(3.0)
    assert plan.before == (COMPONENTS,)
    assert 2.98 < plan.guarantee().epsilon <= 3.0
    assert plan.noise[0].multiplier > tiny_plan().calibrate(3.0).noise[0].multiplier
    with pytest.raises(InputError, match="the queries and metrics alone cost"):
        first_plan().calibrate(0.5)


def test_with_a_holdout_they_are_about_both_parts() -> None:
    """Little noise for held-out rows, so that theirs is the dearer part: it holds the query as well."""
    metric = Metric(noise=0.5, rows="holdout")
    plan = first_plan(metrics=[metric], holdout=0.3)
    dearer = guarantee(Compose((COMPONENTS, metric.event)), 1e-5 * (1 - 1e-9)).epsilon
    assert dearer > guarantee(metric.event, 1e-5).epsilon
    assert plan.guarantee().epsilon == pytest.approx(dearer * CONFIRMABLE, rel=1e-5)


def test_metrics_have_their_places_after_them() -> None:
    metric = Metric(noise=9.0, every=3)
    plan = first_plan(metrics=[metric])
    assert plan.charges == 1 + 7 + 2
    assert [k for k in range(plan.charges) if plan.metric_at(k) is not None] == [4, 8]
    assert plan.next_block(1) == (*[STEP] * 3, metric.event)


def test_the_filter_of_an_adaptive_run_is_made_for_them_too() -> None:
    plan = adaptive(before=[COMPONENTS])
    assert plan.before == (COMPONENTS,)
    assert plan.step_at(1) == 0
    with pytest.raises(InputError, match="no exact mu"):
        adaptive(sampling=NoSampling(), before=[Poisson(0.1, Gaussian(4.0, Query.COVARIANCE))])


def test_plans_keep_them_in_json() -> None:
    plan = first_plan()
    again = Plan.model_validate(json.loads(plan.model_dump_json()))
    assert again == plan
    assert again.fingerprint() == plan.fingerprint() != tiny_plan().fingerprint()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"before": COMPONENTS}, "list of events"),
        ({"before": "pca"}, "list of events"),
        ({"before": [Repeat(COMPONENTS, 2000)]}, "at most 1000"),
        ({"before": ["pca"]}, "batch of steps|event"),
        ({"unit": "user"}, "protect single rows"),
        (
            {
                "before": [Gaussian(9.0)],
                "clip_norm": None,
                "clipping": AdaptiveClipping(initial=1.0, bit_multiplier=9.0),
            },
            "adaptive clipping",
        ),
    ],
)
def test_what_cannot_come_before(changes: dict[str, Any], says: str) -> None:
    with pytest.raises((InputError, ValueError), match=says):
        first_plan(**changes)


QUERIES: dict[type, Event] = {
    Gaussian: Gaussian(4.0, Query.HISTOGRAM),
    Laplace: Laplace(4.0),
    BoundedRange: BoundedRange(0.3),
    NoisyMax: NoisyMax(0.3),
    SparseHistogram: SparseHistogram(4.0, 30.0),
    Selection: Selection(Gaussian(9.0), PoissonTrials(2.0)),
    Poisson: Poisson(0.5, Compose((Gaussian(4.0), Gaussian(6.0, Query.COUNT)))),
}
"""One of each that may be asked; what a quantile or a choice releases is a `BoundedRange` or a `NoisyMax`."""


def test_what_a_plan_takes_both_verifiers_recompute(tmp_path: Path) -> None:
    """No plan is made whose certificate would be rejected."""
    assert set(QUERIES) == set(get_args(Answered))
    for kind, event in [*QUERIES.items(), (NoisyMax, Poisson(0.5, NoisyMax(0.3)))]:
        if kind not in (Gaussian, SparseHistogram, Poisson):
            with pytest.raises(InputError, match=f"before: no verifier recomputes what {kind.__name__} costs"):
                tiny_plan(before=[event])
            continue
        folder, plan = tmp_path / kind.__name__, tiny_plan(before=[event])
        with answered_first(plan, linear(), folder / "run") as account:
            account.pay(event)
        publish(training_after(folder, plan).run(progress=False), folder / "out")
        assert verify(folder / "out").accepted
        assert reviewer.main([str(folder / "out")]) == 0


def test_choices_go_with_zcdp_alone() -> None:
    assert adaptive(sampling=NoSampling(), filter_kind="zcdp", before=[BoundedRange(0.3)]).before
    for kind in ("rdp-curve", "rdp-order"):
        with pytest.raises(InputError, match="what BoundedRange costs"):
            adaptive(filter_kind=kind, before=[BoundedRange(0.3)])
    with pytest.raises(InputError, match="what NoisyMax costs"):
        adaptive(sampling=NoSampling(), filter_kind="zcdp", before=[NoisyMax(0.3)])


def test_an_epoch_is_no_query() -> None:
    with pytest.raises(InputError, match="Epoch is a batch of steps"):
        first_plan(before=[Epoch(Repeat(Gaussian(2.0), 3))])


@pytest.mark.parametrize(("given", "named"), [(Count(), "a Count"), ("x", "a str")])
def test_what_is_no_event_is_named(given: object, named: str) -> None:
    with pytest.raises(
        InputError, match=f"before lists events, as discreet.queries.joint_event says them, got {named}$"
    ):
        first_plan(before=[given])
