"""No error of an estimator, and nothing that it is chained to, shows a value of the private rows.

Every kind of frame is given every kind of fault. Faulty cells, and where they are gaps the cells around, hold marks
that are looked for in whatever an error carries, in warnings and in the log.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from declared_rows import DECLARED, X

from discreet import InputError, PrivateClassifier, PrivateRegressor

ROWS = len(X)
JANE, NUMBER, DAY = "Jane", 424242, datetime.date(1987, 5, 4)
MARKS = (JANE, str(NUMBER), "1987", JANE.encode().hex(), "6332")
"""What must not be seen: the text (also as Arrow prints bytes), the number, and the day (also counted from 1970)."""

Maker = Callable[[list[Any]], Any]


def _objects(cells: list[Any]) -> np.ndarray:
    found = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def _series(cells: list[Any]) -> pd.Series:
    return pd.Series(_objects(cells))


FRAMES: Mapping[str, Maker] = {
    "pandas": lambda cells: pd.DataFrame({"c": _series(cells)}),
    "pandas category": lambda cells: pd.DataFrame({"c": _series(cells).astype("category")}),
    "pandas nullable": lambda cells: pd.DataFrame({"c": _series(cells).convert_dtypes()}),
    "pandas on Arrow": lambda cells: pd.DataFrame({"c": pd.Series(cells, dtype=pd.ArrowDtype(pa.array(cells).type))}),
    "polars": lambda cells: pl.DataFrame({"c": cells}),
    "Arrow table": lambda cells: pa.table({"c": cells}),
    "Arrow dictionary": lambda cells: pa.table({"c": pa.array(cells).dictionary_encode()}),
    "Arrow batch": lambda cells: pa.record_batch({"c": pa.array(cells)}),
}
ARRAYS: Mapping[str, Maker] = {
    "array of objects": lambda cells: _objects(cells)[:, np.newaxis],
    "array": lambda cells: np.array(cells)[:, np.newaxis],
    "lists": lambda cells: [[cell] for cell in cells],
    **FRAMES,
}
TARGETS: Mapping[str, Maker] = {
    "array of objects": _objects,
    "array": np.array,
    "list": list,
    "series": _series,
    "series nullable": lambda cells: _series(cells).convert_dtypes(),
    "series of polars": lambda cells: pl.Series(cells),
    "Arrow array": pa.array,
    "Arrow column": lambda cells: pa.chunked_array([cells]),
    "frame": FRAMES["pandas"],
    "frame of polars": FRAMES["polars"],
    "Arrow table": FRAMES["Arrow table"],
}

NO_CELLS: Mapping[str, Any] = {
    "word": JANE,
    "padded word": f"  {JANE} ",
    "lines": f"\n{JANE}\tDoe\u00a0",
    "limit": f" < {JANE}",
    "day as text": f" {DAY} ",
    "day": DAY,
    "time": datetime.datetime(1987, 5, 4, 1, 2, 3),
    "time of day": datetime.time(19, 8, 7, NUMBER),
    "duration": datetime.timedelta(NUMBER),
    "list": [JANE],
    "struct": {JANE: NUMBER},
    "tuple": (JANE, 1),
    "bytes": JANE.encode(),
    "complex": NUMBER + 1j,
    "half a text": f"{JANE}\ud800",
    "period": pd.Period("1987-05"),
    "interval": pd.Interval(NUMBER, NUMBER + 1),
}
"""Values that are no number, nor a category."""

INFINITE: Mapping[str, Any] = {
    "long and infinite": f" {NUMBER}{'0' * 400}",
    "infinite": [float(NUMBER)] * (ROWS - 1) + [float("inf")],
}
GAP = [float(NUMBER)] * (ROWS - 1) + [None]
SEVERAL_TYPES = [JANE, NUMBER] * (ROWS // 2)
NO_NUMBERS = {**NO_CELLS, **INFINITE, "gap": GAP, "several types": SEVERAL_TYPES}
LABELS, AMOUNTS = ["a", "b"] * (ROWS // 2), [0.5] * ROWS

DATE = {"type": "date", "low": "2020-01-01", "high": "2025-01-01", "outside": "refuse", "missing": "refuse"}
COLUMNS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "number": (
        {"type": "number", "low": 0, "high": 1, "outside": "refuse", "missing": "refuse"},
        {
            **NO_CELLS,
            **INFINITE,
            "outside": NUMBER,
            "outside as text": f" {NUMBER}.5 ",
            "outside as decimal": Decimal(f"{NUMBER}.10"),
            "gap": [0.5] * (ROWS - 1) + [None],
            "several types": SEVERAL_TYPES,
        },
    ),
    "date": (DATE, {**NO_CELLS, "number": NUMBER}),
    "date with a format": (DATE | {"format": "%d.%m.%Y"}, {"padded": f" {JANE} ", "outside": "04.05.1987 "}),
    "category": (
        {"type": "category", "categories": ["A", "B"], "unseen": "refuse", "missing": "refuse"},
        {**NO_CELLS, "number": NUMBER, "gap": [JANE] * (ROWS - 1) + [None], "several types": SEVERAL_TYPES},
    ),
    "boolean": ({"type": "boolean", "unseen": "refuse"}, {"padded": f" {JANE} ", "number": NUMBER}),
}
"""Kinds of declared columns, each with faults: a value for all cells, or the cells."""


def _classifier(**changes: Any) -> PrivateClassifier:
    return PrivateClassifier(**{**DECLARED, "steps": 2, "classes": ["a", "b"], **changes})


def _regressor(**changes: Any) -> PrivateRegressor:
    return PrivateRegressor(**{**DECLARED, "steps": 2, "target_bounds": (0, 1), **changes})


def _by_columns(facts: Any) -> PrivateClassifier:
    return _classifier(bounds=None, columns={"c": facts})


def _made(make: Maker, faults: Mapping[str, Any]) -> dict[str, Any]:
    """Rows with each fault, as far as the library holds it."""
    found = {}
    for fault, given in faults.items():
        cells = given if isinstance(given, list) and len(given) == ROWS else [given] * ROWS
        try:
            found[fault] = make(cells)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of polars is no Exception
            continue
    assert len(found) >= len(faults) / 3
    return found


def _no_numbers(make: Maker) -> dict[str, Any]:
    """Rows that are no numbers, without those that NumPy reads as some, as it does times of its own types."""
    return {fault: rows for fault, rows in _made(make, NO_NUMBERS).items() if not _finite(rows)}


def _finite(rows: Any) -> bool:
    found = np.asarray(rows)
    try:
        return found.dtype.kind != "c" and bool(np.isfinite(found.astype(np.float64)).all())
    except (TypeError, ValueError, OverflowError):
        return False


def carried(error: BaseException | None, seen: tuple[BaseException, ...] = ()) -> Iterator[str]:
    """All texts that an error carries: its own, and those of the errors that it is chained to."""
    if error is None or error in seen:
        return
    yield from (str(error), repr(error), repr(error.args), repr(vars(error)), *getattr(error, "__notes__", ()))
    yield repr(getattr(error, "object", ""))  # the whole text, of an error about Unicode
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        yield from carried(other, (*seen, error))


def marked(texts: Iterable[str]) -> list[str]:
    """The texts that show a value."""
    return [text for text in texts if any(mark.lower() in text.lower() for mark in MARKS)]


def refused(call: Callable[[], object], where: str = "") -> str:
    """What is wrong with the error of a call, in words; "" if it is one line about a place, and shows no value."""
    with warnings.catch_warnings(action="always", record=True) as shown:
        try:
            call()
        except Exception as error:
            found = marked([*carried(error), *(str(one.message) for one in shown)])
            sound = type(error) is InputError and len(str(error).splitlines()) == 1 and where in str(error)
            return "\n".join(found) or ("" if sound else f"{type(error).__name__}: {error}")
    return "no error"


def check(calls: Iterable[tuple[str, Callable[[], object]]], where: str = "") -> None:
    """Each call is refused, and none of the errors shows a value."""
    assert {name: wrong for name, call in calls if (wrong := refused(call, where))} == {}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("column", COLUMNS)
def test_cells_of_a_declared_column(column: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    facts, faults = COLUMNS[column]
    one = _by_columns(facts)
    rows = _made(FRAMES[kind], faults)
    check(((name, lambda given=given: one.fit(given, LABELS)) for name, given in rows.items()), "column 'c'")
    assert not marked([caplog.text])


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_that_arrow_holds_and_does_not_convert(column: str) -> None:
    facts = {**COLUMNS[column][0], "missing": "refuse"}
    one, text = _by_columns(facts), pa.py_buffer(f"{JANE}\xff".encode("latin-1") * ROWS)
    starts = pa.py_buffer(np.arange(0, 5 * ROWS + 1, 5, np.int32))
    columns = {
        "text that is not UTF-8": pa.Array.from_buffers(pa.string(), ROWS, [None, starts, text]),
        "unknown zone": pa.array([NUMBER] * ROWS, pa.timestamp("s", f"{JANE}/Doe")),
        "far day": pa.array([NUMBER * 1000] * ROWS, pa.int32()).cast(pa.date32()),
        "far time": pa.array([NUMBER * 10**10] * ROWS, pa.timestamp("s")),
        "no type": pa.nulls(ROWS),
    }
    tables = {name: pa.table({"c": values}) for name, values in columns.items()}
    check(((name, lambda given=given: one.fit(given, LABELS)) for name, given in tables.items()), "column 'c'")


@pytest.mark.parametrize("kind", ARRAYS)
def test_cells_of_rows_with_bounds(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    one, rows = _classifier(), _no_numbers(ARRAYS[kind])
    check(((name, lambda given=given: one.fit(given, LABELS)) for name, given in rows.items()), "X")
    assert not marked([caplog.text])


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_that_are_no_numbers(kind: str) -> None:
    one, mixed, frame = _regressor(), _regressor(bounds=None, columns={"c": (0, 1)}), pd.DataFrame({"c": AMOUNTS})
    targets = _no_numbers(TARGETS[kind])
    check(((name, lambda given=given: one.fit(X, given)) for name, given in targets.items()), "y")
    check(((name, lambda given=given: mixed.fit(frame, given)) for name, given in targets.items()), "y")


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_that_are_no_classes(kind: str) -> None:
    texts, numbers = _classifier(), _classifier(classes=[0, 1])
    targets = _made(TARGETS[kind], {**NO_NUMBERS, "continuous": NUMBER + 0.5, "number": NUMBER})
    check((name, lambda given=given: texts.fit(X, given)) for name, given in targets.items())
    check((name, lambda given=given: numbers.fit(X, given)) for name, given in targets.items())


@pytest.mark.parametrize("given", [JANE, NUMBER, _objects([JANE]).reshape(()), [JANE], {JANE: NUMBER}, {JANE}])
def test_what_is_given_in_the_place_of_rows(given: Any) -> None:
    columns = _by_columns((0, 1))
    check(
        {
            "amounts": lambda: _regressor().fit(X, given),
            "labels": lambda: _classifier().fit(X, given),
            "labels beside columns": lambda: columns.fit(pd.DataFrame({"c": AMOUNTS}), given),
            "rows": lambda: _classifier().fit(given, LABELS),
            "columns": lambda: columns.fit(given, LABELS),
            "units": lambda: _classifier().fit(X, LABELS, units=given),
        }.items()
    )


def test_new_rows_and_public_ones() -> None:
    """The rows of a prediction, and of a public test, are checked as those of a fit are."""
    frame, bad = pd.DataFrame({"c": AMOUNTS}), pd.DataFrame({"c": [f" {JANE} "] * ROWS})
    one, mixed = _classifier().fit(X[:, :1], LABELS), _by_columns((0, 1)).fit(frame, LABELS)
    amounts = _regressor()
    check(
        {
            "rows": lambda: one.predict(bad),
            "columns": lambda: mixed.predict(bad),
            "public columns": lambda: mixed.fit(frame, LABELS, public_test=(bad, LABELS)),
            "public labels": lambda: one.fit(X, LABELS, public_test=(X + 1, [JANE] * ROWS)),
            "public amounts": lambda: amounts.fit(X, AMOUNTS, public_test=(X + 1, [JANE] * ROWS)),
        }.items()
    )
