"""Rows and targets as newcomers give them: they are read as they are meant, or one line says how to give them.

Nothing is charged before that, and no error tells how many rows there are.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from declared_rows import DECLARED, FRAME, NEW_FRAME, NEW_Y, X, Y, classifier
from scipy import sparse

from discreet import InputError, PrivateClassifier, PrivateRegressor

ROWS = len(X)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(day) for day in range(ROWS)]
SEEN = pd.DataFrame({"seen": pd.to_datetime(DAYS), "age": X[:, 0]})
GAPS = X[:, 0] < 0.1


def regressor(**changes: Any) -> PrivateRegressor:
    return PrivateRegressor(**{**DECLARED, "target_bounds": (0, 1), "steps": 2, **changes})


def by_columns(**columns: Any) -> PrivateClassifier:
    return classifier(bounds=None, columns=columns, steps=2)


def refused(call: Callable[[], object], said: str) -> None:
    """One line that says so, before anything is charged, and without the number of rows."""
    with pytest.raises(InputError) as error:
        call()
    text = str(error.value)
    assert said in text
    assert len(text.splitlines()) == 1
    assert not any(str(count) in text for count in (ROWS, ROWS - 1))
    assert not Path("discreet-runs").exists()


TIMES: dict[str, Any] = {
    "days": SEEN[["seen"]],
    "days among numbers": SEEN,
    "days in a zone": SEEN[["seen"]].apply(lambda days: days.dt.tz_localize("Europe/Berlin")),
    "days of Arrow in pandas": SEEN[["seen"]].astype("date32[pyarrow]"),
    "polars": pl.DataFrame({"seen": DAYS}),
    "polars among numbers": pl.DataFrame({"seen": DAYS, "age": X[:, 0]}),
    "Arrow": pa.table({"seen": DAYS}),
    "Arrow batch": pa.record_batch({"seen": pa.array(DAYS)}),
    "array": SEEN[["seen"]].to_numpy(),
    "array of whole days": np.array(DAYS, "M8[D]")[:, np.newaxis],
    "list": [[day] for day in np.array(DAYS, "M8[D]")],
}


@pytest.mark.parametrize("kind", TIMES)
def test_days_are_no_numbers(kind: str) -> None:
    rows, named = TIMES[kind], "list" not in kind and "array" not in kind
    what = "column 'seen' of X" if named else "X"
    key = "seen" if named else "NAME"
    for bounds in ((0, 1), (0, 2e18), (datetime.date(2020, 1, 1), datetime.date(2025, 1, 1))):
        refused(
            lambda bounds=bounds: classifier(bounds=bounds).fit(rows, Y),
            f"{what} holds days or times, and bounds are of numbers; give a frame with columns={{'{key}': {{'type':",
        )


@pytest.mark.parametrize(
    "targets",
    [SEEN["seen"], SEEN[["seen"]], pl.Series(DAYS), pa.array(DAYS), pa.chunked_array([DAYS]), np.array(DAYS, "M8[D]")],
    ids=lambda targets: type(targets).__name__,
)
def test_a_target_of_days_is_refused_in_any_unit(targets: Any) -> None:
    refused(lambda: regressor(target_bounds=(0, 2e18)).fit(X, targets), "y holds days or times; give a number")
    mixed = regressor(bounds=None, columns={"age": (0, 1)}, target_bounds=(0, 2e18))
    refused(lambda: mixed.fit(SEEN[["age"]], targets), "y holds days or times; give a number")


def test_durations_have_no_unit() -> None:
    spent = SEEN[["seen"]] - pd.Timestamp("2020-01-01")
    refused(lambda: classifier(bounds=(0, 2e18)).fit(spent, Y), "column 'seen' of X holds durations; give numbers")
    refused(lambda: regressor(target_bounds=(0, 2e18)).fit(X, spent["seen"]), "y holds durations; give numbers")
    refused(lambda: regressor(target_bounds=(0, 2e18)).fit(X, pa.array(spent["seen"])), "y holds durations")


@pytest.mark.parametrize(
    "day", [datetime.date, datetime.datetime, pd.Timestamp, lambda *at: np.datetime64(datetime.date(*at))]
)
def test_a_pair_of_days_is_a_range_of_days(day: Any) -> None:
    one = by_columns(seen=(day(2020, 1, 1), day(2025, 1, 1))).fit(SEEN[["seen"]], Y)
    column = one._encoder.schema.columns["seen"]
    assert (column.type, column.low, column.high) == ("date", datetime.date(2020, 1, 1), datetime.date(2025, 1, 1))


def test_two_days_as_texts_are_no_categories_of_days() -> None:
    refused(lambda: by_columns(seen=("2020-01-01", "2025-01-01")).fit(SEEN[["seen"]], Y), "'seen' lists two days")


def test_a_day_out_of_range_is_not_counted_from_1970() -> None:
    late = {"type": "date", "low": "2022-01-01", "high": "2025-01-01", "outside": "refuse"}
    refused(
        lambda: by_columns(seen=late).fit(SEEN[["seen"]], Y),
        "row 0, counted from 0, column 'seen': the value is outside of 2022-01-01 to 2025-01-01",
    )


@pytest.mark.parametrize("missing", [pd.NA, None, np.nan, pd.NaT])
@pytest.mark.parametrize(
    "made",
    [
        list,
        lambda labels: np.array(labels, object),
        lambda labels: pd.Series(labels, dtype=object),
        lambda labels: pd.Series(labels, dtype=object).convert_dtypes(),
        lambda labels: pd.Series(labels, dtype=object).astype("category"),
    ],
)
@pytest.mark.parametrize("classes", [["no", "yes"], [0, 1], ["nan", "<NA>", "NaT", "None"]])
def test_a_missing_label_is_called_missing(classes: list[Any], made: Any, missing: Any) -> None:
    labels = [classes[row % 2] for row in range(ROWS)]
    labels[5] = missing
    with pytest.raises(
        InputError, match=r"(row 5 of y, counted from 0|label of row 5, counted from 0).*leave"
    ) as error:
        classifier(classes=classes).fit(X, made(labels))
    assert "number" not in str(error.value)


@pytest.mark.parametrize("units", [[pd.NA] + [1] * (ROWS - 1), pd.Series([pd.NA] + ["a"] * (ROWS - 1), dtype="string")])
def test_a_missing_person_is_said(units: Any) -> None:
    refused(lambda: classifier(steps=2).fit(X, Y, units=units), "row 0 of the data, counted from 0, has no identifier")


NAMES = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
UNREADABLE: dict[str, tuple[Any, Any, str]] = {
    "masked": (np.ma.masked_array(X, X < 0.1), Y, ", is masked; fill it with a public value"),
    "mapping": (dict(FRAME), Y, "X is a dict; give a frame, for example pandas.DataFrame(X)"),
    "records": (FRAME.to_records(index=False), Y, "X is an array of records; give a frame"),
    "lazy": (pl.DataFrame({"a": X[:, 0]}).lazy(), Y, "whose rows are not there yet; give X.collect()"),
    "series": (FRAME["age"], Y, "X is a series, which is one column or one row; give a frame"),
    "series of polars": (pl.Series(X[:, 0]), Y, "X is a series"),
    "gradients": (torch.tensor(X, requires_grad=True), Y, "gradients are taken of; give X.detach()"),
    "nothing": (None, Y, "X is None"),
    "no columns": (X[:, :0], Y, "X has no columns"),
    "frame without columns": (FRAME[[]], Y, "X has no columns"),
    "no rows": (X[:0], Y[:0], "has no rows"),
    "two of one name": (pd.DataFrame(X, columns=["a", "a", "b"]), Y, "two columns are called 'a'; rename one"),
    "two of one name in Arrow": (pa.Table.from_arrays([pa.array(X[:, 0])] * 2, ["a", "a"]), Y, "called 'a'; rename"),
    "sparse": (sparse.csr_array(X), Y, "dense data is required; give .toarray()"),
    "sparse by keys": (sparse.dok_matrix(X), Y, "dense data is required; give .toarray()"),
    "sparse of pandas": (FRAME.astype(pd.SparseDtype(float, 0)), Y, ".sparse.to_dense()"),
    "three axes": (X[:, :, np.newaxis], Y, "dim 3"),
    "one axis": (X[:, 0], Y, "Reshape your data"),
    "fewer targets": (X, Y[:-1], "inconsistent numbers of samples: give one target for each row"),
    "no targets": (X, [], "inconsistent numbers of samples"),
    "two targets": (X, np.c_[Y, Y], "y should be a 1d array, which has one target for each row"),
    "one of each class": (X, np.eye(2, dtype=int)[(Y == "yes").astype(int)], "y should be a 1d array"),
    "no y": (X, None, "requires y to be passed, but the target y is None"),
    "masked y": (X, np.ma.masked_array(Y, GAPS), ", is masked; leave the row out"),
    "bytes": (X, Y.astype("S"), "label of row 0, counted from 0, is no text and no number"),
    "days as labels": (X, DAYS, "label of row 0, counted from 0, is no text and no number"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_said_in_one_line(case: str) -> None:
    rows, targets, said = UNREADABLE[case]
    refused(lambda: classifier(steps=2).fit(rows, targets), said)


@pytest.mark.parametrize("count", [1, ROWS - 1, ROWS + 1])
def test_people_that_do_not_pair_up(count: int) -> None:
    refused(lambda: classifier(steps=2).fit(X, Y, units=range(count)), "identifiers than the data has rows")


@pytest.mark.parametrize("units", [None, range(ROWS)])
def test_more_people_than_declared(units: Any) -> None:
    one = classifier(population=100, batch=50, steps=2)
    refused(lambda: one.fit(X, Y, units=units), "that the declared population allows")


@pytest.mark.parametrize(
    ("rows", "bounds"),
    [
        (pd.DataFrame(X), {0: (0, 1), 1: (0, 1), 2: (0, 1)}),
        (pd.DataFrame(X, columns=NAMES), dict.fromkeys(NAMES, (0, 1))),
    ],
)
def test_bounds_by_names_that_are_no_texts(rows: Any, bounds: Any) -> None:
    refused(lambda: classifier(bounds=bounds).fit(rows, Y), "which the rows do not have; theirs are 'x0', 'x1', 'x2'")
    named = dict(zip(("x0", "x1", "x2"), bounds.values(), strict=True))
    assert classifier(bounds=named, steps=2).fit(rows, Y).n_features_in_ == 3


def test_columns_whose_names_are_equal_as_texts_are_two_of_one_name() -> None:
    rows = pd.DataFrame(X[:, :2], columns=pd.Index([1, "1"], dtype=object))
    refused(lambda: by_columns(**{"1": (0, 1)}).fit(rows, Y), "two columns are called '1'")


def test_a_sparse_frame_with_columns_is_read() -> None:
    rows = FRAME.astype(pd.SparseDtype(float, 0))
    one = by_columns(**dict.fromkeys(FRAME, (0, 1))).fit(rows, Y)
    assert np.array_equal(one.predict_proba(NEW_FRAME.astype(pd.SparseDtype(float, 0))), one.predict_proba(NEW_FRAME))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> PrivateClassifier:
    return classifier(steps=2, run_dir=str(tmp_path_factory.mktemp("run") / "run")).fit(FRAME, Y)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (NEW_FRAME[["age", "height"]], "'weight' is missing"),
        (NEW_FRAME.rename(columns={"age": "years"}), "'age' is missing"),
        (NEW_FRAME.assign(more=1), "'more' is one more"),
        (NEW_FRAME[["weight", "age", "height"]], "bring them in its order"),
        (NEW_FRAME[:0], "X has no rows"),
        (NEW_FRAME.iloc[0], "X is a series"),
        (NEW_FRAME.assign(age=SEEN["seen"]), "column 'age' of X holds days or times"),
    ],
)
def test_new_rows_that_do_not_fit_say_which_column(rows: Any, said: str, fitted: PrivateClassifier) -> None:
    refused(lambda: fitted.predict(rows), said)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (None, "y to be passed"),
        ([None, *NEW_Y[1:]], "label of row 0, counted from 0, is missing"),
        ([1] * len(NEW_Y), "is a number, and the declared classes are text"),
        (NEW_Y[:-1], "give one target for each row"),
    ],
)
def test_a_score_says_what_is_wrong_with_its_targets(targets: Any, said: str, fitted: PrivateClassifier) -> None:
    refused(lambda: fitted.score(NEW_FRAME, targets), said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (X, "public_test must be a pair (rows, targets), got ndarray"),
        ((NEW_FRAME.to_numpy(),), "public_test must be a pair"),
        ((NEW_FRAME.to_numpy(), None), "y to be passed"),
        ((NEW_FRAME.to_numpy(), NEW_Y[:-1]), "give one target for each row"),
        ((NEW_FRAME.to_numpy(), [pd.NA, *NEW_Y[1:]]), "row 0 of y, counted from 0, is missing"),
    ],
)
def test_public_rows_that_do_not_fit(given: Any, said: str) -> None:
    refused(lambda: classifier(steps=2).fit(X, Y, public_test=given), said)


@pytest.mark.parametrize(
    "labels", [list, tuple, lambda cells: np.array(cells, object), lambda cells: pd.Series(cells, dtype=object)]
)
@pytest.mark.parametrize("odd", [5.0, np.float64(5), np.uint64(5)])
def test_a_label_of_another_type_does_not_round_those_of_others(
    labels: Callable[[list[Any]], Any], odd: object
) -> None:
    """NumPy would make fractions of all of them, and two whole numbers from 2^53 on one."""
    one = classifier(classes=[5, 2**53, 2**53 + 1])
    one._targets()
    for cells in ([2**53 + 1, 2**53], [2**53 + 1, 2**53, odd]):
        assert one._encoded(one._checked_target(labels(cells))).tolist() == [2, 1, 0][: len(cells)]
