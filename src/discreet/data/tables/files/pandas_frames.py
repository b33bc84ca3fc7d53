"""Columns of a frame of pandas as a table of Arrow, in which no cell decides how another is read."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.core.errors import InputError
from discreet.core.silence import attempted
from discreet.data.tables.files.cells import cell_text, is_missing


def of_pandas(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    """The columns of a frame with different names; those that `columns` ignores or does not declare are null.

    Where cells have types of their own (a column of objects), each is read by itself: a cell must not decide how those
    of other people are read. `InputError` for a column with values of several kinds.
    """
    read = {name: columns.get(str(name), {"type": "ignore"}) for name in frame.columns}
    return pa.table({str(name): _column(frame[name], str(name), facts) for name, facts in read.items()})


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
