"""Rows of a frame with declared columns of any type, as a table of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.core.silence import attempted
from discreet.data.tables.files.pandas_frames import of_pandas


def frame_rows(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    """The `columns` of a frame of pandas or polars, or of a table of Arrow, in their order. Names are different.

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
        return of_pandas(frame, columns)
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
