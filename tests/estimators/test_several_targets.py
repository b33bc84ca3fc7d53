"""Regressors that predict several numbers of each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from declared_rows import DECLARED, NEW, X

import discreet
from discreet import PrivateRegressor
from discreet.estimators.declared import numeric_facts, schema_of
from discreet.prediction import predict_frame

BOTH = np.stack([100 + 90 * X[:, 0], 5 - 4 * X[:, 1]], axis=1)
NEW_BOTH = np.stack([100 + 90 * NEW[:, 0], 5 - 4 * NEW[:, 1]], axis=1)
RANGES = {"cost": (100, 200), "stay": (0, 6)}


@pytest.mark.parametrize("kind", ["pairs", "names", "frame", "arrow"])
def test_several_numbers_of_each_row(kind: str, tmp_path: Path) -> None:
    """A column each, in the unit of each; the columns of a frame are found by their names."""
    bounds = list(RANGES.values()) if kind == "pairs" else RANGES
    one = PrivateRegressor(**{**DECLARED, "target_bounds": bounds, "learning_rate": 1.0})
    turned = pd.DataFrame(BOTH, columns=list(RANGES))[["stay", "cost"]]
    targets = {"frame": turned, "arrow": pa.Table.from_pandas(turned)}.get(kind, BOTH)
    one.fit(X, targets, public_test=(NEW, NEW_BOTH))
    found = one.predict(NEW)
    assert found.shape == (200, 2)
    assert all(np.corrcoef(found[:, place], NEW_BOTH[:, place])[0, 1] > 0.7 for place in (0, 1))
    assert (found.min(axis=0) >= [100, 0]).all()
    assert (found.max(axis=0) <= [200, 6]).all()
    assert one.score(NEW, NEW_BOTH) > 0.3
    one.publish(tmp_path / "out")
    assert discreet.verify(tmp_path / "out").accepted
    again = predict_frame(discreet.load(tmp_path / "out"), pd.DataFrame(NEW, columns=["x0", "x1", "x2"]))
    assert list(again) == (["target_1", "target_2"] if kind == "pairs" else list(RANGES))
    assert np.allclose(again.to_numpy(), found, atol=1e-4)


@pytest.mark.parametrize(
    ("bounds", "targets", "said"),
    [
        (RANGES, BOTH[:, 0], "y has 1 number for each row, and target_bounds declares 2;"),
        (RANGES, np.c_[BOTH, BOTH], "y has 4 numbers for each row, and target_bounds declares 2;"),
        ((0, 1), BOTH, "y should be a 1d array"),
        ({"cost": (100, 200), "stay": (6, 0)}, BOTH, "the range of stay is 6 to 0"),
        (
            RANGES,
            pd.DataFrame(BOTH, columns=["cost", "days"]),
            "columns cost, days, and target_bounds declares cost, stay",
        ),
    ],
)
def test_several_numbers_that_do_not_fit(bounds: Any, targets: Any, said: str) -> None:
    with pytest.raises(discreet.InputError, match=said):
        PrivateRegressor(**{**DECLARED, "target_bounds": bounds}).fit(X, targets)
    assert not Path("discreet-runs").exists()


def test_targets_keep_apart_from_columns_and_one_another() -> None:
    """A target is called as its column if no feature is, and each has a name that nothing else has."""
    names = ["age", "predicted_age", "unit"]
    columns = numeric_facts(names, np.array([[0, 1]] * 3))
    targets = numeric_facts(["age", "predicted_age_", "cost"], np.array([[0, 1]] * 3))
    found = schema_of(columns, targets, 300, 2)
    assert found.target == ("predicted_age__", "predicted_age_", "cost")
    assert found.features == tuple(names)
    assert found.unit == "unit_"
