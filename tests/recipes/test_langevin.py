"""Recipes with Langevin optimizers: privacy read off, or calibrated."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from discreet import InputError, Plan
from discreet.cli.app import run
from discreet.methods import SGLD, DPDropout, LangevinSteps
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe

STEPS = {"first": 0.02, "decay": 0.6, "every": 2}
RECIPE: dict[str, Any] = {
    "data": "digits",
    "model": {"name": "linear", "inputs": 64, "outputs": 10},
    "optimizer": {"name": "sgld", "population": 1437, "precision": 2.0, "steps": STEPS},
    "population": 1437,
    "rate": 0.05,
    "steps": 6,
    "clip_norm": 1.0,
    "schedule": f"power:initial={2 * 0.05 / math.sqrt(0.02)!r},rate=0.3,per=step,every=2",
    "delta": 1e-4,
}


def recipe(**changes: Any) -> Recipe:
    return validate(Recipe, RECIPE | changes, "recipe")


def test_the_schedule_is_the_noise_of_the_sampler() -> None:
    plan = recipe().plan()
    assert isinstance(plan, Plan)
    wanted = LangevinSteps(**STEPS).noise(6, rate=0.05, clip_norm=1.0)
    assert [(phase.multiplier, phase.steps) for phase in plan.noise] == [
        (pytest.approx(noise, rel=1e-12), count) for noise, count in wanted
    ]
    optimizer = recipe().build_optimizer(recipe().build_model())
    assert isinstance(optimizer, SGLD)
    assert optimizer.steps == LangevinSteps(**STEPS)
    assert optimizer.param_groups[0]["precision"] == 2.0


def test_it_trains_and_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "sgld.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(RECIPE))
    assert run(["train", str(path), "--out", str(out)]) == 0
    assert run(["verify", str(out)]) == 0
    certificate = json.loads((out / "certificate.json").read_text())
    assert f"{recipe().plan().guarantee().epsilon:.6f}"[:6] in json.dumps(certificate)


def test_a_calibrated_plan_is_refused_where_step_sizes_are_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sgld.yaml"
    path.write_text(yaml.safe_dump(RECIPE | {"epsilon": 1.0}))
    assert run(["train", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "the declared one is" in " ".join(capsys.readouterr().err.split())


def test_dropout_by_name_and_what_sgld_does_not_take() -> None:
    chosen = recipe(optimizer={"name": "dp_dropout", "lr": 2.0, "decay": 0.5}, schedule=None, epsilon=1.0)
    assert isinstance(chosen.build_optimizer(chosen.build_model()), DPDropout)
    with pytest.raises(InputError, match="no learning rate for a scheduler"):
        recipe(scheduler={"name": "step", "step_size": 2})
