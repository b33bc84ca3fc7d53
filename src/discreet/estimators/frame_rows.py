"""Rows of a frame with declared columns of any type, as a table of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError


def frame_rows(frame: Any, columns: Mapping[str, Any]) -> pa.Table:
    """The `columns` of a frame of pandas or polars, or of a table of Arrow, in their order.

    `InputError` for anything else, for a column that is missing or not declared, and for one with values of several
    types. Which values fit is checked where they are encoded.
    """
    table = _table(frame)
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
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        raise InputError(f"two columns are called {twice[0]!r}; rename one")
    if not table.num_rows:
        raise InputError("the frame has no rows")
    return table.select(wanted)


def _table(frame: Any) -> pa.Table:
    try:
        if hasattr(frame, "iloc") and hasattr(frame, "columns"):
            return pa.table({str(name): _column(frame[name], str(name)) for name in _once(frame.columns)})
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except pa.ArrowException:
        raise InputError(
            "the frame cannot be read as a table of Arrow; give frame.to_arrow(), or a frame of pandas"
        ) from None
    raise InputError(
        f"with columns declared, rows are a frame of pandas or polars or a table of Arrow, got {type(frame).__name__}"
    )


def _once(names: Any) -> list[Any]:
    found = list(names)
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise InputError(f"two columns are called {twice[0]!r}; rename one")
    return found


def _column(values: Any, name: str) -> pa.Array:
    try:
        return pa.Array.from_pandas(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError(
            f"the column {name!r} has values of several types; bring them to one, for example with astype(str)"
        ) from None
