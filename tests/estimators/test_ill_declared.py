"""Declarations of estimators that say nothing, or are of another type: one line names them, and nothing is charged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from declared_rows import DECLARED, FRAME, X, Y, classifier

from discreet import InputError, PrivateClassifier, PrivateRegressor

ROWS = len(X)
DAYS = pd.date_range("2020-01-01", periods=2).date.tolist()


def by_columns(**columns: Any) -> PrivateClassifier:
    return classifier(bounds=None, columns=columns, steps=2)


def refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert not Path("discreet-runs").exists()


SETTINGS: dict[str, tuple[Any, ...]] = {
    "epsilon": ("3", [3], 0, -1, float("nan"), float("inf"), True),
    "delta": ("x", 0, -1),
    "population": ("400", 0, True),
    "batch": ("x", 0),
    "clip_norm": ("x", 0),
    "learning_rate": ("x", 0),
    "steps": ("x", 0, 1.5, True),
    "rows_per_unit": (0, "x"),
    "seed": (1.5, None, -1),
    "hidden": (5, "64", (0,), (8.5,), {64}),
    "ledger": (5,),
    "run_dir": (5,),
}


@pytest.mark.parametrize(("name", "value"), [(name, one) for name, all_ in SETTINGS.items() for one in all_])
def test_settings_of_another_type_are_refused_by_their_name(name: str, value: Any) -> None:
    refused(lambda: classifier(**{name: value}).fit(X, Y), f"{name} must ")


def test_rows_of_a_person_without_persons_are_refused() -> None:
    """Who forgets `units` would get the protection of rows, and believe it to be that of persons."""
    refused(lambda: classifier(rows_per_unit=2, steps=2).fit(X, Y), "rows_per_unit=2 is about persons")


def test_bounds_as_a_list_of_lows_and_one_of_highs() -> None:
    """Other libraries take them so; of two columns it is seen where the pairs would be no ranges."""
    lows, highs = [0.0] * X.shape[1], [2.0] * X.shape[1]
    said = "bounds are a list of lows and one of highs; give a pair (low, high) for each column: bounds=[(0, 2), (0, 2)"
    refused(lambda: classifier(bounds=(lows, highs)).fit(X, Y), said)
    refused(
        lambda: classifier(bounds=([0, 0], [2, 3])).fit(X[:, :2], Y),
        f"{said[:-1].replace('(0, 2), (0, 2', '(0, 2), (0, 3')}",
    )


@pytest.mark.parametrize("bounds", [10**400, "01", {1, 2}, (0, 10**400)])
def test_bounds_that_are_no_ranges(bounds: Any) -> None:
    refused(lambda: classifier(bounds=bounds).fit(X, Y), "bounds ")
    refused(lambda: PrivateRegressor(**DECLARED | {"target_bounds": bounds}).fit(X, X[:, 0]), "target_bounds ")


@pytest.mark.parametrize("column", [5, None, "A", [], {1, 2}, ("A", 1), (0, 10**400)])
def test_columns_that_say_nothing(column: Any) -> None:
    refused(lambda: by_columns(age=column).fit(FRAME[["age"]], Y), "the range of 'age' in columns must be a pair")


@pytest.mark.parametrize("many", [list, tuple, np.array, pd.Series, pd.Index, set])
def test_lists_of_any_kind_declare_a_column(many: Any) -> None:
    rows = pd.DataFrame({"ward": ["A", "B", None] * (ROWS // 3), "age": X[:, 0]})
    one = by_columns(ward=many(["A", "B"]), age=(0, 1) if many is set else many([0, 1])).fit(rows, Y)
    column = one._encoder.schema.columns["ward"]
    assert column.type == "category"
    assert set(column.categories) == {"A", "B"}


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([b"no", b"yes"], "classes must be texts or numbers, got labels of the type bytes"),
        (DAYS, "classes must be texts or numbers, got labels of the type date"),
        ([0.5, 1.5], "classes are whole numbers that fit 64 bits, or texts"),
        ([10**30, 10**31], "classes are whole numbers that fit 64 bits, or texts"),
    ],
)
def test_classes_that_cannot_be_labels(classes: Any, said: str) -> None:
    refused(lambda: classifier(classes=classes).fit(X, [classes[row % 2] for row in range(ROWS)]), said)


@pytest.mark.parametrize("many", [list, tuple, set, np.array, pd.Series, pd.Index, pd.Categorical, pl.Series, pa.array])
def test_classes_are_listed_in_any_way(many: Any) -> None:
    assert classifier(classes=many(["no", "yes"]), steps=2).fit(X, Y).classes_.tolist() == ["no", "yes"]
