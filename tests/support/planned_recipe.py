"""A small recipe in the working folder, for tests of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 4, "outputs": 3},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "population": 40,
    "rate": 0.5,
    "steps": 12,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}
POLICY = {"kind": "validation_decay", "average": 1, "period": 1, "factor": 0.5, "threshold": 2.0}
ADAPTIVE = {"adaptive": {"policy": POLICY, "noise_multiplier": 6.0, "every": 2}, "validation": 0.5}


def write(**changes: Any) -> None:
    recipe = RECIPE | changes
    Path("mine.yaml").write_text(yaml.safe_dump({name: value for name, value in recipe.items() if value is not None}))
