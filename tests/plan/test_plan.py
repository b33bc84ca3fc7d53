"""The plan: what it refuses, and that everything is derived from it consistently."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_plans import make

from discreet import Adjacency, InputError, Plan
from discreet.accounting.adaptive.odometers import RenyiOdometer
from discreet.core.adjacency import Unit
from discreet.core.events import Gaussian
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
from discreet.plan.adaptive.odometer_rule import Reading
from discreet.plan.batches import RatePhase
from discreet.plan.pydantic_base import validate


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


def test_the_expected_batch_is_the_rate_times_the_declared_population() -> None:
    assert make(population=1000, batch=100).expected_batch == pytest.approx(100)
    assert make(population=50, batch=50).sampling.rate == 1.0
    assert "data" not in Plan.model_fields
