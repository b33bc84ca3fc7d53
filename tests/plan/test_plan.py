"""The plan: what it refuses, and that everything is derived from it consistently."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Adjacency, BudgetExhausted, InputError, Plan, guarantee
from discreet.accounting import Compose
from discreet.accounting.adaptive.odometers import RenyiOdometer
from discreet.core.adjacency import Unit
from discreet.core.events import Event, Gaussian, Poisson, flatten, tally
from discreet.plan import (
    FlatClipping,
    Holdout,
    Metric,
    NoisePhase,
    NoSampling,
    PoissonSampling,
    Search,
    ShuffleSampling,
)
from discreet.plan.batches import RatePhase
from discreet.plan.odometer_rule import Reading
from discreet.plan.pricing import LEAST
from discreet.plan.pydantic_base import validate
from discreet.sampling import OVERFLOW

GOOD: dict[str, Any] = {
    "population": 1000,
    "batch": 100,
    "steps": 20,
    "clip_norm": 1.0,
    "delta": 1e-5,
    "noise_multiplier": 1.1,
}


def make(**changes: Any) -> Plan:
    return Plan.poisson(**(GOOD | changes))


@pytest.mark.parametrize(
    ("epochs", "population", "batch", "steps"),
    [
        (2, 1000, 100, 20),
        (1, 1000, 300, 4),
        (10, 1000, 10, 1000),
        (0.5, 1000, 100, 5),
        (0.001, 1000, 100, 1),
        (3, 7, 7, 3),
    ],
)
def test_epochs_are_passes_on_average(epochs: float, population: float, batch: float, steps: int) -> None:
    """As many steps as are needed, and none more."""
    plan = make(steps=None, epochs=epochs, population=population, batch=batch)
    assert plan.steps == steps
    assert plan.epochs >= epochs * (1 - 1e-9)
    assert plan == make(steps=steps, population=population, batch=batch)


def test_epochs_of_other_samplers_are_theirs() -> None:
    rest = {"population": 1000, "clip_norm": 1.0, "delta": 1e-5, "epochs": 3}
    assert Plan.make(ShuffleSampling(batch=125), **rest, adjacency="zero_out").steps == 24
    assert Plan.make(NoSampling(), **rest).steps == 3


@given(st.floats(1e-3, 1), st.floats(1e-2, 100))
def test_no_step_more_than_the_epochs_need(rate: float, epochs: float) -> None:
    steps = make(steps=None, epochs=epochs, population=1000, batch=1000 * rate).steps
    assert (steps - 1) * rate < epochs <= steps * rate * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": None}, "say how long: steps=..., or epochs="),
        ({"epochs": 2}, "give steps or epochs, not both"),
        ({"steps": None, "epochs": 0}, "epochs must be"),
        ({"steps": None, "epochs": math.nan}, "epochs"),
        ({"steps": None, "epochs": 2, "batches": [(50, 20)]}, "with batches that change, say steps"),
    ],
)
def test_a_length_that_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make(**changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"population": math.nan}, "population"),
        ({"population": 0}, "population"),
        ({"population": -5}, "population"),
        ({"population": math.inf}, "population"),
        ({"population": "1000"}, "population"),
        ({"batch": math.nan}, "batch"),
        ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"),
        ({"batch": 1001}, "batch"),
        ({"batch": 1e-320, "population": 1e300}, "rate"),
        ({"steps": 0}, "steps"),
        ({"steps": -1}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"clip_norm": 0}, "norm"),
        ({"clip_norm": math.nan}, "norm"),
        ({"clip_norm": math.inf}, "norm"),
        ({"clip_norm": -1}, "norm"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"noise_multiplier": 0}, "multiplier"),
        ({"noise_multiplier": math.nan}, "multiplier"),
        ({"noise_multiplier": math.inf}, "multiplier"),
        ({"noise_multiplier": []}, "noise"),
        ({"noise_multiplier": [(1.0, 10), (2.0, 9)]}, "noise_multiplier cover 19 steps, but steps is 20"),
        ({"noise_multiplier": [(1.0, 20), (2.0, 0)]}, "steps"),
        ({"noise_multiplier": [(1.0,)]}, "noise_multiplier"),
        ({"noise_multiplier": "1.0"}, "noise_multiplier"),
        ({"adjacency": "neighbours"}, "adjacency"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        make(**changes)
    assert field in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("delta",), "lots", "delta"),
        (("sampling", "rate"), 1.5, "sampling.poisson.rate"),
        (("sampling", "rate"), math.nan, "sampling.poisson.rate"),
        (("clipping", "norm"), None, "clipping.flat.norm"),
        (("noise", 0, "multiplier"), -1, "noise.0.multiplier"),
        (("block",), 0, "block"),
        (("sampling", "kind"), "lottery", "sampling"),
        (("surprise",), 1, "surprise"),
    ],
)
def test_a_bad_field_of_a_file_is_named_by_its_path(path: tuple[Any, ...], value: object, field: str) -> None:
    data = make().model_dump(mode="json")
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError) as refusal:
        validate(Plan, data, "plan.yaml")
    assert str(refusal.value).startswith("plan.yaml: ")
    assert field in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_plan_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make().delta = 0.5  # type: ignore[misc]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_calibrate_stays_within_the_budget_and_returns_a_new_plan(epsilon: float) -> None:
    plan = make(noise_multiplier=[(2.0, 15), (1.0, 5)])
    calibrated = plan.calibrate(epsilon)
    assert calibrated is not plan
    assert plan == make(noise_multiplier=[(2.0, 15), (1.0, 5)])
    assert 0.99 * epsilon < calibrated.guarantee().epsilon <= epsilon
    first, second = calibrated.noise
    assert first.multiplier / second.multiplier == pytest.approx(2.0)
    assert (first.steps, second.steps) == (15, 5)


def test_calibrate_to_another_delta_returns_a_plan_with_that_delta() -> None:
    calibrated = make().calibrate(1.0, delta=1e-6)
    assert calibrated.delta == 1e-6
    assert calibrated.guarantee().epsilon <= 1.0


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_calibrate_refuses_a_budget_that_is_none(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        make().calibrate(epsilon)


def changed_plans() -> dict[str, Plan]:
    plan = make()
    updates: dict[str, Any] = {
        "adjacency": Adjacency.ZERO_OUT,
        "unit": Unit.USER,
        "rows_per_unit": 2,
        "sampling": PoissonSampling(rate=0.11),
        "population": 1001.0,
        "clipping": FlatClipping(norm=1.0000001),
        "noise": (NoisePhase(multiplier=1.1, steps=21),),
        "rates": (RatePhase(rate=0.1, steps=20),),
        "metrics": (Metric(noise=50.0),),
        "before": (Gaussian(9.0),),
        "holdout": Holdout(share=0.1),
        "odometer": Reading(odometer=RenyiOdometer(1e-5)),
        "search": Search.make({"lr": [1, 2]}, 5, score="validation_loss"),
        "delta": 1.1e-5,
        "block": 51,
        "initial_state": "sha256:00",
    }
    assert set(updates) == set(Plan.model_fields)
    one = {name: plan.model_copy(update={name: value}) for name, value in updates.items()}
    return one | {
        "multiplier": make(noise_multiplier=math.nextafter(1.1, 2)),
        "phases": make(noise_multiplier=[(1.1, 10), (1.1, 10)]),
    }


@pytest.mark.parametrize("name", changed_plans())
def test_the_fingerprint_changes_with_any_field(name: str) -> None:
    assert changed_plans()[name].fingerprint() != make().fingerprint()


@given(
    population=st.floats(1, 1e12),
    share=st.floats(1e-12, 1),
    norm=st.floats(1e-8, 1e8),
    delta=st.floats(1e-300, 0.5),
    phases=st.lists(st.tuples(st.floats(0.01, 1e6), st.integers(1, 10**6)), min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_the_fingerprint_survives_yaml_and_json(
    population: float, share: float, norm: float, delta: float, phases: list[tuple[float, int]]
) -> None:
    plan = Plan(
        sampling=PoissonSampling(rate=share),
        population=population,
        clipping=FlatClipping(norm=norm),
        noise=tuple(NoisePhase(multiplier=multiplier, steps=steps) for multiplier, steps in phases),
        delta=delta,
    )
    as_data = plan.model_dump(mode="json")
    for again in (
        Plan.model_validate_json(plan.model_dump_json()),
        Plan.model_validate(json.loads(json.dumps(as_data))),
        Plan.model_validate(yaml.safe_load(yaml.safe_dump(as_data, sort_keys=False))),
    ):
        assert again == plan
        assert again.fingerprint() == plan.fingerprint()


def unrolled(event: Event) -> list[Event]:
    return [part for part, count in flatten(event) for _ in range(count)]


phase_lists = st.lists(st.tuples(st.floats(0.5, 4), st.integers(1, 9)), min_size=1, max_size=5)


@given(phases=phase_lists, block=st.integers(1, 12), data=st.data())
def test_next_block_is_always_the_next_slice_of_the_events(
    phases: list[tuple[float, int]], block: int, data: st.DataObject
) -> None:
    steps = sum(count for _, count in phases)
    plan = make(noise_multiplier=phases, steps=steps).model_copy(update={"block": block})
    expected: list[Event] = [Poisson(plan.sampling.rate, Gaussian(s)) for s, count in phases for _ in range(count)]
    assert unrolled(plan.event()) == expected
    position = data.draw(st.integers(0, steps - 1))
    assert list(plan.next_block(position)) == expected[position : position + block]
    for beyond in (steps, steps + 1, steps + 10 * block):
        with pytest.raises(BudgetExhausted, match=str(steps)):
            plan.next_block(beyond)


@given(phases=phase_lists, block=st.integers(1, 12))
def test_blocks_in_a_row_are_the_whole_plan(phases: list[tuple[float, int]], block: int) -> None:
    plan = make(noise_multiplier=phases, steps=sum(count for _, count in phases)).model_copy(update={"block": block})
    taken: list[Event] = []
    while len(taken) < plan.steps:
        taken.extend(plan.next_block(len(taken)))
    assert taken == unrolled(plan.event())
    assert tally(Compose(tuple(taken))) == tally(plan.event())


@given(phases=phase_lists, data=st.data())
def test_first_steps_are_a_prefix_and_compose(phases: list[tuple[float, int]], data: st.DataObject) -> None:
    plan = make(noise_multiplier=phases, steps=sum(count for _, count in phases))
    count = data.draw(st.integers(0, plan.steps))
    whole = unrolled(plan.event())
    assert unrolled(plan.first_steps(count)) == whole[:count]
    rest = Compose(tuple(whole[count:]))
    assert tally(Compose((plan.first_steps(count), rest))) == tally(plan.event())


def test_the_expected_batch_is_the_rate_times_the_declared_population() -> None:
    assert make(population=1000, batch=100).expected_batch == pytest.approx(100)
    assert make(population=50, batch=50).sampling.rate == 1.0
    assert "data" not in Plan.model_fields


@pytest.mark.parametrize("changes", [{"noise_multiplier": 1e6}, {"batch": 1e-9}])
def test_no_plan_claims_less_than_another_accountant_can_confirm(changes: dict[str, Any]) -> None:
    """One Gaussian step of noise s moves a set's probability by at most 1 / (s sqrt(2 pi)) < delta, a sampled one by at
    most its rate: epsilon 0 is proved, and 1e-12 is claimed."""
    plan = make(steps=1, **changes)
    assert guarantee(plan.event(), 1e-5, plan.adjacency).epsilon == 0
    assert plan.guarantee().epsilon == LEAST
    with pytest.raises(InputError, match="no plan claims an epsilon below 1e-12"):
        plan.calibrate(1e-13)


def test_a_guarantee_at_a_larger_delta_is_smaller() -> None:
    plan = make()
    assert plan.guarantee(1e-3).epsilon < plan.guarantee().epsilon
    assert plan.guarantee(1e-3).delta == 1e-3


def test_a_billionth_of_delta_is_set_aside_for_batches_that_are_too_large() -> None:
    plan = make()
    found = plan.guarantee()
    assert found.delta == plan.delta
    stated = guarantee(plan.event(), plan.delta - 1e-9 * plan.delta, plan.adjacency).epsilon
    assert found.epsilon == stated * (1 + 5e-4)  # room for another accountant
    assert found.epsilon >= guarantee(plan.event(), plan.delta, plan.adjacency).epsilon
    assert plan.steps * (1 + math.exp(found.epsilon)) * OVERFLOW <= 1e-9 * plan.delta


@pytest.mark.parametrize(
    "changes", [{"delta": 1e-95}, {"noise_multiplier": 0.03, "batch": 1000}], ids=["delta", "epsilon"]
)
def test_where_what_is_set_aside_is_too_little_epsilon_is_infinite(changes: dict[str, Any]) -> None:
    plan = make(**changes)
    assert math.isfinite(guarantee(plan.event(), plan.delta, plan.adjacency).epsilon)
    assert plan.guarantee().epsilon == math.inf


@given(epsilon=st.floats(0.1, 8), delta=st.floats(1e-12, 1e-3))
@settings(max_examples=10)
def test_calibration_leaves_room_for_what_is_set_aside(epsilon: float, delta: float) -> None:
    assert make(delta=delta).calibrate(epsilon).guarantee().epsilon <= epsilon


def test_the_schedule_of_the_clip_norm_counts_steps_and_not_the_metrics_between_them() -> None:
    metrics = [Metric(noise=50.0, every=2), Metric(kind="loss", bound=1.0, noise=50.0)]
    plan = Plan.poisson(
        population=100,
        batch=10,
        steps=5,
        clip_norm=[(1.0, 3), (0.5, 2)],
        noise_multiplier=4,
        delta=1e-5,
        metrics=metrics,
    )
    places = [plan.step_at(position) for position in range(plan.charges) if plan.metric_at(position) is None]
    assert places == list(range(5))


def test_a_long_run_has_about_a_thousand_blocks() -> None:
    """So the ledger and the certificate stay small, however many steps there are."""
    for steps, block in ((1, 50), (50_999, 50), (52_000, 52), (10**6, 1000)):
        assert make(steps=steps).block == block
