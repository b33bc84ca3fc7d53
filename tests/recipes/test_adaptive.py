"""Recipes of runs that are chosen on the way: what their filter is fitted to, and who looks at which public rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from official_files import FILES

from discreet import InputError, guarantee
from discreet.core.events import Gaussian, Poisson, Repeat
from discreet.plan import AdaptivePlan
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe

RECIPE: dict[str, Any] = {
    "data": "digits",
    "model": {"name": "digit_strokes"},
    "optimizer": {"name": "sgd", "lr": 0.5},
    "population": 1437,
    "rate": 0.1,
    "steps": 200,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
    "adaptive": {"policy": {"kind": "constant"}, "noise_multiplier": 2},
}


def plan(**changes: Any) -> AdaptivePlan:
    found = validate(Recipe, RECIPE | changes, "recipe").plan()
    assert isinstance(found, AdaptivePlan)
    return found


def affordable(plan: AdaptivePlan, noise: float) -> float:
    """How many steps of one noise the filter of a plan has room for."""
    costs = plan.filter.cost(Poisson(0.1, Gaussian(noise)))
    return min(limit / cost for limit, cost in zip(plan.filter.limits, costs, strict=True))


@pytest.mark.parametrize("kind", ["rdp-curve", "rdp-order"])
def test_the_filter_lets_the_course_through_that_it_was_fitted_to(kind: str) -> None:
    """With the epsilon that Renyi accounting gives a course, as much of the course fits, within hundredths."""
    steps, noise = 300, 1.5
    course = Repeat(Poisson(0.1, Gaussian(noise)), steps)
    epsilon = 1.001 * guarantee(course, 1e-4, method="rdp").epsilon
    adaptive = RECIPE["adaptive"] | {"course": {"steps": steps, "noise_multiplier": noise}, "filter": kind}
    found = plan(adaptive=adaptive, epsilon=epsilon)
    assert 0.99 * steps <= affordable(found, noise) < 1.02 * steps
    assert found.guarantee().epsilon <= epsilon


def test_a_course_of_shuffled_batches_is_whole_epochs() -> None:
    """An epoch costs one Gaussian, whatever its batches."""
    adaptive = RECIPE["adaptive"] | {"course": {"steps": 25, "noise_multiplier": 2}}
    sampling = {"kind": "shuffle", "batch": 144}
    found = plan(adaptive=adaptive, rate=None, sampling=sampling, adjacency="zero_out", population=1440)
    assert found.guarantee().epsilon <= 3.0
    recipe = validate(Recipe, RECIPE | {"adaptive": adaptive}, "recipe")
    assert recipe.adaptive is not None
    event = recipe.adaptive.expected(found.sampling, 1440)  # type: ignore[arg-type]
    assert event is not None
    epochs = guarantee(event, 1e-4, "zero_out")
    assert math.isclose(epochs.epsilon, guarantee(Repeat(Gaussian(2.0), 2), 1e-4, "zero_out").epsilon, rel_tol=1e-6)


def test_its_blocks_are_those_of_the_recipe() -> None:
    assert (plan().block, plan(block=7).block) == (50, 7)


def test_samplers_without_a_filter_are_refused() -> None:
    with pytest.raises(InputError, match="fixed_size sampling has no filter; use poisson, shuffle or none"):
        plan(rate=None, sampling={"kind": "fixed_size", "batch": 100}, adjacency="replace_one")


def test_public_rows_for_validation_come_from_one_place(tmp_path: Path) -> None:
    FILES["mnist"](tmp_path)
    shown = {"data": {"name": "mnist", "public": 1}, "model": {"name": "mnist_strokes"}}
    split = validate(Recipe, RECIPE | shown, "recipe").load_data(tmp_path)
    assert split.validation is not None
    assert len(split.validation[1]) == 1
    with pytest.raises(InputError, match="the data brings rows for validation; leave out validation"):
        validate(Recipe, RECIPE | shown | {"validation": 0.5}, "recipe").load_data(tmp_path)
