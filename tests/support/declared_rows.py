"""Rows for private estimators, and what is declared of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from discreet import PrivateClassifier

GENERATOR = np.random.Generator(np.random.PCG64(5))
X = GENERATOR.uniform(size=(300, 3))
Y = np.where(X[:, 0] > X[:, 1], "yes", "no")
FRAME = pd.DataFrame(X, columns=["age", "height", "weight"])
NEW = GENERATOR.uniform(size=(200, 3))
NEW_Y = np.where(NEW[:, 0] > NEW[:, 1], "yes", "no")
NEW_FRAME = pd.DataFrame(NEW, columns=FRAME.columns)

DECLARED: dict[str, Any] = {
    "epsilon": 20.0,
    "delta": 1e-4,
    "population": 300,
    "bounds": (0, 1),
    "hidden": (),
    "batch": 150,
    "steps": 40,
    "engine": "bookkeeping",
}


def classifier(**changes: Any) -> PrivateClassifier:
    return PrivateClassifier(**{**DECLARED, "classes": ["no", "yes"], **changes})
