"""Rows of a frame with declared columns of any type, as a table of Arrow."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.core.errors import InputError
from discreet.data.private.groups import is_missing
from discreet.data.tables.files.cells import cell_text
from discreet.estimators.checked import attempted


def frame_rows(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    """The `columns` of a frame of pandas or polars, or of a table of Arrow, in their order. Names are different.

    Where cells of pandas have types of their own (a column of objects), each is read by itself: a cell must not decide
    how those of other people are read.

    `InputError` for anything else, for a column that is missing or not declared, and for one with values of several
    kinds. Which values fit is checked where they are encoded.
    """
    table = _table(frame, columns)
    given = [name for name in table.column_names if columns.get(name, {}).get("type") != "ignore"]
    wanted = [name for name, facts in columns.items() if facts.get("type") != "ignore"]
    missing, more = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
    if missing:
        raise InputError(f"the rows have no column {missing[0]!r}, which columns declares")
    if more:
        raise InputError(
            f"the rows have a column {more[0]!r}, which columns does not declare; declare it, or say "
            f"{more[0]!r}: {{'type': 'ignore'}}"
        )
    if not table.num_rows:
        raise InputError("the frame has no rows")
    for name in wanted:
        _refuse_unsound(table.column(name), name)
    return table.select(wanted)


def _table(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        read = {name: columns.get(str(name), {"type": "ignore"}) for name in frame.columns}
        return pa.table({str(name): _column(frame[name], str(name), facts) for name, facts in read.items()})
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InputError(
            "with columns declared, rows are a frame of pandas or polars or a table of Arrow, got "
            f"{type(frame).__name__}"
        )
    found = attempted(lambda: pa.table(frame))
    if found is None:
        raise InputError("the frame cannot be read as a table of Arrow; give frame.to_arrow(), or a frame of pandas")
    return found


def _refuse_unsound(values: pa.ChunkedArray, name: str) -> None:
    """Refuse texts that are not UTF-8: Arrow does not look at them before they are used."""
    if _sound(values):
        return
    row = next((row for row in range(len(values)) if not _sound(values.slice(row, 1))), None)
    if row is None or pa.types.is_nested(values.type) or pa.types.is_dictionary(values.type):
        raise InputError(f"the column {name!r} is no valid data of Arrow, or has text that is not UTF-8; make it anew")
    raise InputError(
        f"row {row}, counted from 0, column {name!r}: the text is not UTF-8; decode it by the encoding that it is in"
    )


def _sound(values: pa.ChunkedArray) -> bool:
    return attempted(lambda: (values.validate(full=True),)) is not None


def _column(values: Any, name: str, facts: Mapping[str, Any]) -> pa.Array:
    if facts.get("type") == "ignore":
        return pa.nulls(len(values))
    if hasattr(values, "sparse"):
        values = values.sparse.to_dense()
    if hasattr(values, "cat") and values.cat.categories.dtype == object:  # Arrow would give all of them one type
        values = values.astype(object)
    day = (facts.get("format") or "%Y-%m-%d") if facts.get("type") == "date" else None
    objects = values.dtype == object
    found = attempted(lambda: _of_objects(values, day) if objects else pa.Array.from_pandas(values))
    if found is None:
        raise InputError(
            f"the column {name!r} has values of several types, or of one that Arrow does not have; bring them to one, "
            "for example with astype(str)"
        )
    return found


def _of_objects(values: Any, day: str | None) -> pa.Array | None:
    """Cells with types of their own: numbers and days as texts, of which Arrow would make one type by looking at all.
    None for cells of several kinds, and of others. `day`: how days are written, if the column is of days."""
    cells = [None if is_missing(cell) else cell for cell in values]
    kinds = {kind: _kind(kind) for kind in {type(cell) for cell in cells} - {type(None)}}
    if None in kinds.values() or len({*kinds.values()}) > 1:
        return None
    if {*kinds.values()} <= {"text", "truth"}:
        return pa.Array.from_pandas(cells)
    return pa.array([None if cell is None else _text(cell, day) for cell in cells], pa.string())


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "text": str,
    "truth": (bool, np.bool_),
    "number": (numbers.Real, Decimal),
    "day": (datetime.date, np.datetime64),
}
_LONGEST = 40
"""The digits up to which a `Decimal` is written without an exponent."""


def _kind(kind: type) -> str | None:
    return next((name for name, known in _KINDS.items() if issubclass(kind, known)), None)


def _text(cell: Any, day: str | None) -> str | None:
    if isinstance(cell, np.datetime64):
        cell = cell.astype("M8[s]").item()
    elif isinstance(cell, np.generic):
        cell = cell.item()  # a number in single precision has all its digits then
    if isinstance(cell, Decimal) and abs(cell.adjusted()) < _LONGEST:
        return format(cell, "f")
    return cell_text(cell, ".", day)
