"""Recipes that name features, averaging and optimizers over releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from discreet import InputError
from discreet.cli.app import run
from discreet.features import FRONT_ENDS, Strokes
from discreet.methods import Averaging, DPAdamBC
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe, load_recipe
from discreet.recipes.sections.fixed_features import build_front_end

RECIPE: dict[str, Any] = {
    "data": "npz",
    "features": [{"name": "strokes", "share": 3}, {"name": "hog", "bins": 4}],
    "model": {"name": "linear", "inputs": 64 + 64, "outputs": 2},
    "optimizer": {"name": "adam_bc", "lr": 0.05, "floor": 1e-4},
    "averaging": {"start": 2},
    "population": 30,
    "rate": 0.5,
    "steps": 4,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}


def recipe(**changes: Any) -> Recipe:
    return validate(Recipe, RECIPE | changes, "recipe")


def arrays(path: Path) -> Path:
    """30 + 6 images of 12 x 12 pixels with a bright half."""
    x, y = np.random.Generator(np.random.PCG64(0)).random((36, 1, 12, 12)), np.arange(36) % 2
    x[y == 1, :, :, :6] += 1
    np.savez(path / "mine.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    return path / "mine.npz"


def test_features_are_those_of_the_front_end(tmp_path: Path) -> None:
    path = arrays(tmp_path)
    raw, seen = recipe(features=[]).load_data(path), recipe(validation=0.5).load_data(path)
    assert seen.test is not None
    assert seen.validation is not None
    assert raw.test is not None
    front_end = build_front_end(recipe().features, (1, 12, 12))
    torch.testing.assert_close(seen.train[0], front_end(raw.train[0]))
    assert torch.equal(seen.train[1], raw.train[1])
    torch.testing.assert_close(torch.cat([seen.validation[0], seen.test[0]]), front_end(raw.test[0]))
    strokes = Strokes(10 * 0.75**0.5)(raw.train[0])
    torch.testing.assert_close(seen.train[0][:, : strokes.shape[1]], strokes)


def test_one_front_end_goes_by_its_name() -> None:
    assert recipe(features="hog").features == recipe(features=[{"name": "hog"}]).features
    assert recipe(features={"name": "hog"}).features == recipe(features=["hog"]).features
    assert recipe(features=[]).features == ()


def test_it_trains_publishes_and_its_model_stands_behind_the_front_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = arrays(tmp_path)
    Path("mine.yaml").write_text(yaml.safe_dump(RECIPE))
    assert run(["train", "mine.yaml", "--data", str(path), "--out", "out"]) == 0
    assert run(["verify", "out"]) == 0
    head = recipe().build_model()
    head.load_state_dict(load_file("out/model.safetensors"))
    model = nn.Sequential(build_front_end(recipe().features, (1, 12, 12)), head)
    assert model(torch.rand(2, 1, 12, 12)).shape == (2, 2)
    assert float(head[1].weight.detach().abs().max()) > 0


def test_a_run_folder_remembers_it() -> None:
    """`--resume` reads the recipe from JSON."""
    assert validate(Recipe, json.loads(json.dumps(recipe().model_dump(mode="json"))), "job") == recipe()


def test_the_recipe_for_mnist_fits_its_features() -> None:
    known = load_recipe("mnist_scattering")
    front_end = build_front_end(known.features, (1, 28, 28))
    assert known.build_model()(front_end(torch.rand(2, 1, 28, 28))).shape == (2, 10)


def test_names_become_what_they_name() -> None:
    assert isinstance(recipe().build_optimizer(nn.Linear(1, 1)), DPAdamBC)
    assert recipe().averaging == Averaging(start=2)
    assert recipe(averaging=None).averaging is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": "scatering"}, f"features: unknown name 'scatering'; known: {', '.join(FRONT_ENDS)}"),
        ({"features": [{"name": "hog", "share": 0}]}, "share"),
        ({"features": [{"bins": 4}]}, "name"),
        ({"averaging": {"decay": 1.5}}, "decay"),
        ({"averaging": {"begin": 3}}, "averaging"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        recipe(**changes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("features", "words"),
    [({"name": "hog", "binns": 3}, "features hog cannot take.*binns"), ({"name": "hog", "cell": 0}, "cell")],
)
def test_wrong_arguments_are_named(features: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        recipe(features=[features]).load_data(arrays(tmp_path))
