"""Recipes whose model is trained in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from discreet.cli.app import run
from discreet.prediction import load

RECIPE = {
    "data": "npz",
    "model": {"name": "resnet18", "width": 2, "side": 32, "last": True, "outputs": 2},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "population": 30,
    "rate": 0.5,
    "steps": 2,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}


def test_the_last_layer_alone_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer of a recipe is over what its model trains; over all parameters it was refused."""
    monkeypatch.chdir(tmp_path)
    drawn = np.random.default_rng(0)
    np.savez(
        "data.npz",
        x_train=drawn.random((30, 3, 8, 8), dtype=np.float32),
        y_train=np.arange(30) % 2,
        x_test=drawn.random((6, 3, 8, 8), dtype=np.float32),
        y_test=np.arange(6) % 2,
    )
    Path("recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    assert run(["train", "recipe.yaml", "--data", "data.npz", "--out", "out"]) == 0
    model = load("out").model
    assert {name for name, one in model.named_parameters() if one.requires_grad} == {"fc.weight", "fc.bias"}
