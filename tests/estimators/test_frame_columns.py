"""Estimators on frames whose columns are declared: texts, dates and gaps."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from declared_rows import DECLARED, X, classifier
from sklearn.base import clone

import discreet
from discreet import PrivateClassifier, PrivateRegressor
from discreet.core.errors import InputError
from discreet.data.tables import Encoder
from discreet.estimators.declared import facts_of, schema_of
from discreet.estimators.frame_rows import frame_rows
from discreet.prediction import predict_frame

MIXED = pd.DataFrame(
    {
        "age": [30.0, None, 50.0] * 100,
        "ward": pd.Series(["A", None, "B"] * 100, dtype="category"),
        "seen": ["2024-05-01", "2020-01-02", None] * 100,
        "smoker": [True, False, None] * 100,
        "name": ["Jane", "Joe", "Jim"] * 100,
    }
)
COLUMNS: dict[str, Any] = {
    "age": (0, 100),
    "ward": ["A", "B"],
    "seen": {"type": "date", "low": "2020-01-01", "high": "2025-01-01"},
    "smoker": {"type": "boolean"},
    "name": {"type": "ignore"},
}


def of_frames(**changes: Any) -> PrivateClassifier:
    return classifier(
        **{"bounds": None, "columns": COLUMNS, "classes": ["a", "b", "c"], "learning_rate": 2.0} | changes
    )


def test_a_frame_of_texts_dates_and_gaps(tmp_path: Path) -> None:
    """It learns from them (the ward alone tells the class), and is published as a model of a table is."""
    labels = np.array(["a", "b", "c"] * 100)
    one = clone(of_frames()).fit(MIXED, labels, public_test=(MIXED.copy(), labels.copy()))
    assert (one.predict(MIXED[::-1].copy()) == labels[::-1]).all()
    assert np.array_equal(one.predict_proba(MIXED), one.predict_proba(pa.Table.from_pandas(MIXED)))
    assert one.n_features_in_ == 5
    one.publish(tmp_path / "out")
    assert discreet.verify(tmp_path / "out").accepted
    found = predict_frame(discreet.load(tmp_path / "out"), MIXED)
    assert found["target"].tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("columns", "rows", "said"),
    [
        (COLUMNS, MIXED.drop(columns="ward"), "no column 'ward'"),
        (COLUMNS, MIXED.assign(more=1), "a column 'more', which columns does not declare"),
        (COLUMNS, MIXED.assign(age=["x", *[1.0] * 299]), "the column 'age' has values of several types"),
        (COLUMNS, pd.concat([MIXED, MIXED[["age"]]], axis=1), "two columns are called 'age'"),
        (COLUMNS, MIXED[:0], "the frame has no rows"),
        (COLUMNS, X, "rows are a frame of pandas or polars or a table of Arrow, got ndarray"),
        (
            COLUMNS | {"age": {"type": "number", "low": 0, "high": 40, "outside": "refuse"}},
            MIXED,
            "row 2, counted from 0, column 'age'",
        ),
        (COLUMNS | {"age": {"type": "number", "low": 0, "high": 40, "missing": "drop"}}, MIXED, "drops rows"),
        (COLUMNS | {"age": {"type": "number", "buy": {"noise": 10}}}, MIXED, "buys its range"),
        (COLUMNS | {"name": {"type": "text"}}, MIXED, "asks for images or free text"),
        (COLUMNS | {"age": (0, "x")}, MIXED, "the range of 'age' in columns must be a pair of numbers"),
        (
            COLUMNS | {"smoker": "boolean"},
            MIXED,
            "not 'boolean'; any other column is a list of texts, or a mapping such",
        ),
        (COLUMNS | {"smoker": bool}, MIXED, "not 'bool'; any other column is a list of texts, or a mapping such"),
        (COLUMNS | {"smoker": [False, True]}, MIXED, "'smoker' lists truth values; declare {'type': 'boolean'}"),
        (
            COLUMNS | {"ward": [1, 2, 3]},
            MIXED,
            r"'ward' lists 3 numbers; a range is a pair \(low, high\), and codes are",
        ),
        (COLUMNS | {"age": {"type": "numbr"}}, MIXED, "estimator: columns.age"),
        (["age"], MIXED, "columns must be a mapping"),
    ],
)
def test_frames_that_do_not_fit_cost_nothing(columns: Any, rows: Any, said: str) -> None:
    with pytest.raises(discreet.InputError, match=said):
        of_frames(columns=columns, classes=["a", "b"]).fit(rows, ["a", "b", "a"] * 100)
    assert not Path("discreet-runs").exists()


def test_rows_and_targets_of_a_frame_are_equally_many() -> None:
    with pytest.raises(discreet.InputError, match="inconsistent numbers of samples"):
        of_frames().fit(MIXED, ["a"] * 299)
    with pytest.raises(discreet.InputError, match="row 4 of y"):
        PrivateRegressor(**DECLARED | {"bounds": None, "columns": COLUMNS, "target_bounds": (0, 1)}).fit(
            MIXED, [0.5] * 4 + [None] + [0.5] * 295
        )


WARD = {"type": "category", "categories": ["A"], "unseen": "refuse"}
YOUNG = {"type": "number", "low": 0, "high": 1, "outside": "refuse"}


@pytest.mark.parametrize(
    ("name", "facts", "value", "said"),
    [
        ("age", (0, 100), "Jane Doe", "the value is not a number"),
        ("age", (0, 100), 'it\'s \\ "Jane"', "the value is not a number"),
        ("age", YOUNG, 4242.0, "outside"),
        ("seen", COLUMNS["seen"], "Jane Doe", "the value is not a day such as"),
        ("seen", COLUMNS["seen"], "4242", "the value is not a day such as"),
        ("ward", WARD, "Jane Doe", "none of the declared categories"),
    ],
)
def test_an_error_about_a_frame_tells_where_and_never_what(name: str, facts: Any, value: Any, said: str) -> None:
    rows = pd.DataFrame({name: [value] * 300})
    with pytest.raises(discreet.InputError, match=f"row 0, counted from 0, column '{name}': .*{said}") as refused:
        of_frames(columns={name: facts}, classes=["a", "b"]).fit(rows, ["a", "b", "a"] * 100)
    assert "Jane" not in str(refused.value)
    assert "4242" not in str(refused.value)


def test_codes_are_declared_as_the_error_says() -> None:
    codes = {"type": "category", "categories": ["1", "2", "3"], "numeric": True}
    rows, labels = MIXED.assign(ward=[1.0, 2.0, 3.0] * 100), np.array(["a", "b", "c"] * 100)
    one = of_frames(columns=COLUMNS | {"ward": codes}).fit(rows, labels)
    assert (one.predict(rows[:3].copy()) == ["a", "b", "c"]).all()


def test_a_forgotten_declaration_names_that_of_mixed_frames() -> None:
    with pytest.raises(InputError, match="or of a frame with texts, days or gaps columns="):
        of_frames(columns=None).fit(MIXED, np.array(["a", "b", "c"] * 100))


def test_labels_in_another_order_are_refused() -> None:
    labels = pd.Series(["a", "b", "c"] * 100, index=MIXED.index)
    with pytest.raises(InputError, match="have another order than inputs"):
        of_frames().fit(MIXED, labels[::-1])


CODES = {"type": "category", "categories": ["1", "2", "1.5", "1.50", "1000000000000000", "2024-01-31", "true", "x"]}
DAY = datetime.date(2024, 1, 31)
CELLS: dict[str, list[list[Any]]] = {
    "number": [[1, 2], [1.5, 1], [Decimal("1.5"), Decimal("1.50"), Decimal(2)], [10**15, 1], [np.float32(1.5)]],
    "day": [[DAY, DAY], [datetime.datetime(2024, 1, 31)], [pd.Timestamp(DAY), None]],
    "truth": [[True, False], [np.bool_(True)]],
    "text": [["1", "01", "x"]],
}
ODD: dict[str, list[Any]] = {
    "number": [Decimal("1.234"), Decimal("1E+9"), 2.5, np.float32(0.1), 3, 2**63, 2**70, float("inf")],
    "day": [DAY, datetime.datetime(2024, 2, 1, 3, 4), pd.Timestamp("2024-02-01", tz="Europe/Berlin")],
    "truth": [True],
    "text": ["y", "\u00e9"],
    "other": [datetime.time(1, 2), b"x", [1], {"a": 1}, 1j],
}


def encoded(cells: list[Any], column: Any) -> Any:
    facts = facts_of({"code": column})
    rows = frame_rows(pd.DataFrame({"code": pd.Series(cells, dtype=object)}), facts)
    encoder = Encoder(schema_of(facts, {"target": {"type": "boolean"}}, 100, None))
    return encoder.encode(rows, targets=False, show=False, in_memory=True).inputs


@pytest.mark.parametrize(("kind", "other"), [*itertools.product(CELLS, ODD)])
def test_no_cell_of_objects_decides_how_others_are_read(kind: str, other: str) -> None:
    """Arrow would make one type of all cells: with one day among whole numbers all codes were unknown."""
    for cells, odd in itertools.product(CELLS[kind], ODD[other]):
        expected = encoded(cells, CODES)
        for place, found in ((1, [odd, *cells]), (0, [*cells, odd]), (0, [*cells, None, odd])):
            if kind != other:
                with pytest.raises(InputError, match="the column 'code' has values of several types"):
                    encoded(found, CODES)
            else:
                assert np.array_equal(encoded(found, CODES)[place : place + len(cells)], expected)


@pytest.mark.parametrize("other", [None, 1.5, float("inf"), -0.0])
def test_a_gap_does_not_decide_how_codes_are_read(other: float | None) -> None:
    """With one, pandas makes fractions of whole numbers, which Arrow writes with an exponent from 10^10 on."""
    codes, large = [7, 12345678901, 2**53 - 1, 30, -2], 2**53
    column = {"type": "category", "categories": [str(code) for code in [*codes, large]]}
    facts = facts_of({"code": column})
    encoder = Encoder(schema_of(facts, {"target": {"type": "boolean"}}, 100, None))

    def of_a_frame(cells: list[Any]) -> Any:
        rows = frame_rows(pd.DataFrame({"code": cells}), facts)
        return encoder.encode(rows, targets=False, show=False, in_memory=True).inputs

    assert np.array_equal(of_a_frame([*codes, other])[:-1], of_a_frame(codes))
    assert of_a_frame([large, 7]).ravel()[0] == of_a_frame([*codes, 2**53 - 1, large]).ravel()[-1]
    with pytest.raises(InputError, match="row 1, counted from 0, column 'code': the value is too large a whole number"):
        of_a_frame([7, large, other])


def test_cells_of_objects_are_what_they_were() -> None:
    number, day = (0, 4), {"type": "date", "low": "2024-01-01", "high": "2024-03-01", "format": "%Y-%d-%m"}
    assert encoded([1, 2.5, Decimal("3.00"), None], number).ravel().tolist() == [0.25, 0.625, 0.75, -1]
    feb = datetime.datetime(2024, 2, 1, 23)
    assert encoded([DAY, feb, None], day).ravel().tolist() == pytest.approx([0.5, 31 / 60, -1])
    assert (
        encoded([True, None, False], {"type": "boolean"}).ravel().tolist()
        == encoded(["yes", None, "no"], {"type": "boolean"}).ravel().tolist()
    )
