"""Public records made in Python: one that cannot be is an `InputError` of one line."""

import copy
import pickle
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import discreet.plan
import discreet.sampling
from discreet import DiscreetError, InputError, Plan
from discreet.plan import Counts, FlatClipping, Holdout, LineSearch, Metric, PoissonSampling
from discreet.plan.pydantic_base import validate

RECORDS: list[type[BaseModel]] = sorted(
    {
        value
        for room in (discreet.plan, discreet.sampling)
        for value in (getattr(room, name) for name in room.__all__)
        if isinstance(value, type) and issubclass(value, BaseModel)
    },
    key=lambda kind: kind.__name__,
)


def needs(kind: type[BaseModel]) -> bool:
    return any(field.is_required() for field in kind.model_fields.values())


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_that_cannot_be_is_refused_in_one_line(kind: type[BaseModel]) -> None:
    for given in ({"no such field": 1}, *([{}] if needs(kind) else [])):
        with pytest.raises(InputError) as found:
            kind(**given)
        said = str(found.value)
        assert said.startswith(f"{kind.__name__}: ")
        assert "\n" not in said
        assert "pydantic" not in said
        with pytest.raises(ValidationError):  # whoever reads a file says where it stands
            kind.model_validate(given)


def test_there_are_records() -> None:
    assert {"Plan", "AdaptivePlan", "Metric", "FlatClipping", "PoissonSampling", "PartsSearch", "Counts"} <= {
        kind.__name__ for kind in RECORDS
    }


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PoissonSampling(rate=2), "PoissonSampling: rate: input should be less than or equal to 1, got 2"),
        (lambda: FlatClipping(norm=-1), "FlatClipping: norm: input should be greater than or equal to 1e-30, got -1"),
        (lambda: Holdout(share=2), "Holdout: share: input should be less than 1, got 2"),
        (lambda: Counts(noise=-1), "Counts: noise: input should be greater than 0, got -1"),
        (lambda: LineSearch(bound=1), "LineSearch: epsilon: is needed, and is not there"),
        (lambda: Metric(kind="f1", noise=1), "Metric: kind: input should be 'accuracy', 'loss' or 'size', got 'f1'"),
        (lambda: Metric(kind="loss", noise=1), "Metric: a loss needs bound"),
    ],
)
def test_the_field_is_named(make: Any, said: str) -> None:
    with pytest.raises(DiscreetError) as found:
        make()
    assert str(found.value).startswith(said)


def test_records_inside_others_are_named_by_their_place() -> None:
    facts = Plan.poisson(population=100, batch=10, steps=5, clip_norm=1.0, delta=1e-5).model_dump(mode="json")
    facts["sampling"]["rate"] = 2
    with pytest.raises(InputError, match=r"^plan.yaml: sampling.poisson.rate: input should be less than or equal to 1"):
        validate(Plan, facts, "plan.yaml")


def test_records_are_copied_and_pickled() -> None:
    plan = Plan.poisson(population=100, batch=10, steps=5, clip_norm=1.0, delta=1e-5, odometer="renyi")
    for again in (copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan)), plan.model_copy()):
        assert again == plan
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
