"""Which recipes have a center, what they leave to their steps, and which are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from centered_tables import FACTS, recipe, schema, train
from safetensors.torch import load_file

from discreet import InputError, load, verify
from discreet.cli.app import run
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.plan import Plan
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe
from discreet.recipes.models.centered import Uncentered
from discreet.recipes.table_recipe import table_recipe

pytestmark = pytest.mark.usefixtures("centered_tables")


def test_the_steps_have_what_the_center_leaves() -> None:
    plan, without, center = recipe().plan(), recipe(center=None).plan(), recipe().center
    assert center is not None
    assert isinstance(plan, Plan)
    assert isinstance(without, Plan)
    (event,) = plan.before
    assert event == Gaussian(center.noise, Query.CLIPPED_SUM)
    assert 2.98 < plan.guarantee().epsilon <= 3.0
    assert plan.noise[0].multiplier / without.noise[0].multiplier == pytest.approx(1 / math.sqrt(1 - 0.04), abs=0.003)
    # mu of all is that of the center and of the steps, squared and added (Dong, Roth and Su 2022, corollary 3.3)
    mu = [1 / event.noise_multiplier, math.sqrt(plan.steps) / plan.noise[0].multiplier]
    assert math.hypot(*mu) == pytest.approx(math.sqrt(without.steps) / without.noise[0].multiplier, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"population": 30_000},
        {"unit": "kind", "rows_per_unit": 2},
        {"columns": FACTS["columns"] | {"x0": {"type": "number", "buy": {"between": [0, 100], "noise": 10}}}},
        {"columns": FACTS["columns"] | {"x0": {"type": "category", "categories": [str(i) for i in range(5000)]}}},
        {
            "columns": FACTS["columns"] | {f"z{i}": {"type": "number", "low": 0, "high": 1} for i in range(500)},
            "population": 20_000,
        },
    ],
    ids=["large", "of people", "bought", "long", "wide"],
)
def test_tables_without_a_center(changes: dict[str, Any]) -> None:
    assert table_recipe(schema(**changes), 0.5, None)["center"] is None


def test_where_no_query_can_be_answered_there_is_none() -> None:
    assert table_recipe(schema(), 3.0, None, hidden=[8])["center"] is None
    assert table_recipe(schema(), 3.0, None, queries=False)["center"] is None
    assert run(["tune", *train()[1:], "--set", "validation=0.5", "--grid", "optimizer.lr=1,2", "--trials", "2"]) == 0
    assert not Path("out/released.safetensors").exists()


def test_a_run_that_leaves_the_center_out_is_that_of_a_table_without_one() -> None:
    """So that what follows from the noise of the steps is the same when it is said again."""
    assert run(train("--set", "center=null")) == 0
    kept = validate(Recipe, json.loads(Path("out.run/job.json").read_text())["recipe"], "recipe")
    without = validate(Recipe, table_recipe(schema(), 3.0, None, queries=False), "recipe")
    assert kept.optimizer == without.optimizer != recipe().optimizer


def test_a_mistake_costs_nothing() -> None:
    assert run(train("--set", "engine=fast")) == 2
    assert not Path("out.run").exists()


def test_components_and_a_center_are_refused_together() -> None:
    """One run answers one of these queries, and a charge of one would be lost."""
    facts = {"data": "npz", "model": {"name": "linear", "inputs": 2, "outputs": 2}, "center": {"noise": 2.0}}
    facts |= {"optimizer": {"name": "sgd", "lr": 0.1}, "population": 150, "rate": 0.5, "steps": 3, "clip_norm": 1.0}
    facts |= {"epsilon": 3.0, "delta": 1e-3, "components": {"count": 2, "noise": 8.0}}
    with pytest.raises(InputError, match="components or a center, not both"):
        validate(Recipe, facts, "recipe")


def test_a_model_is_centered_by_its_center_alone() -> None:
    for centered in (True, False):
        with pytest.raises(InputError, match="center says whether"):
            recipe(model=table_recipe(schema(), 3.0, None)["model"] | {"centered": centered})


def test_arrays_and_images_are_centered() -> None:
    """A recipe on arrays that asks for it; a folder of images by default, but not one whose noise would be longer."""
    random = np.random.Generator(np.random.PCG64(1))
    x, y = random.uniform(3, 4, size=(200, 2, 4)), np.arange(200) % 2
    np.savez("mine.npz", x_train=x[:150], y_train=y[:150], x_test=x[150:], y_test=y[150:])
    facts = {"data": "npz", "model": {"name": "linear", "inputs": 8, "outputs": 2}, "center": {"noise": 2.0}}
    facts |= {"optimizer": {"name": "sgd", "lr": 0.1}, "population": 150, "rate": 0.5, "steps": 3, "clip_norm": 1.0}
    Path("mine.yaml").write_text(yaml.safe_dump(facts | {"epsilon": 3.0, "delta": 1e-3}))
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    assert verify("out").accepted
    center, predictor = load_file("out/released.safetensors")["center"], load("out")
    torch.testing.assert_close(center, torch.full((8,), 1 / math.sqrt(8)), rtol=0, atol=0.15)
    assert torch.equal(Uncentered(predictor.model).part.center, center)
    assert predictor.scores(x[150:]).shape == (50, 2)
    images = {"path": {"type": "image", "size": "16x16", "mode": "grey"}, "y": FACTS["columns"]["y"]}
    for population, centered in ((2000, True), (100, False), (30_000, False)):
        changed = schema(columns=images, population=population)
        assert (table_recipe(changed, 1.0, None)["center"] is not None) == centered
        assert table_recipe(changed, 1.0, None, queries=False)["center"] is None


def test_all_rungs_of_the_debug_ladder_are_centered(capsys: pytest.CaptureFixture[str]) -> None:
    """As the run is: its mean is next to exact where noise is, and exact without privacy."""
    facts = ["--schema", "schema.yaml", "--epsilon", "3", "--test", "public.csv", "--all-public", "--json"]
    assert run(["debug", "private.csv", *facts]) == 0
    rungs = {rung["name"]: rung["metrics"] for rung in json.loads(capsys.readouterr().out)}
    assert all(rungs[name]["accuracy"] > 0.8 for name in ("plain", "clipped", "noisy"))
    assert run(["debug", "private.csv", *facts, "--set", "center=null"]) == 0
    rungs = {rung["name"]: rung["metrics"] for rung in json.loads(capsys.readouterr().out)}
    assert rungs["noisy"]["accuracy"] < 0.6
