"""Tables of Arrow, and whatever gives itself as one (polars), as named columns of NumPy arrays.

They are read through the Arrow stream that they export (`__arrow_c_stream__`); polars is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.core.array_types import Array
from discreet.core.errors import InputError


class NamedArrays:
    """Arrays by name, each with the rows along axis 0; `held` is what they were given as."""

    def __init__(self, held: Any, arrays: Mapping[Any, Any], rows: int) -> None:
        self.held, self._arrays, self._rows = held, arrays, rows

    @property
    def column_names(self) -> list[Any]:
        """Their names, in order."""
        return list(self._arrays)

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    def __getitem__(self, rows: Sequence[int] | slice) -> dict[Any, Any]:
        """Some rows, column by column."""
        return {name: array[rows] for name, array in self._arrays.items()}


class ArrowTable(NamedArrays):
    """The columns of a table as arrays.

    A missing value is NaN; in a column of text or truth values it is None. Lists of equal length are further axes.
    """

    def __init__(self, held: Any) -> None:
        import pyarrow as pa

        table = pa.table(held)
        twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
        if twice:
            raise InputError(f"two columns are called {twice[0]!r}; rename one")
        super().__init__(held, {name: _array(table.column(name), name) for name in table.column_names}, table.num_rows)


def is_arrow(data: object) -> bool:
    """Whether `data` is a table or column of Arrow or polars, and not of pandas."""
    exports = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return exports and not hasattr(data, "iloc")  # pandas exports too, and is read as it is


def as_named(data: Any) -> Any:
    """A table of Arrow or polars as `ArrowTable`; anything else as it is."""
    if is_arrow(data) and (hasattr(data, "columns") or hasattr(data, "column_names")):
        return ArrowTable(data)
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        raise InputError("data is a lazy frame, whose rows are not there yet; give data.collect()")
    return data


def column(data: Any) -> Array:
    """A column of Arrow, or a series of polars, as an array."""
    import pyarrow as pa

    return _array(data if isinstance(data, pa.Array | pa.ChunkedArray) else pa.chunked_array(data), "targets")


def _array(found: Any, name: str) -> Array:
    import pyarrow as pa

    nested = pa.types.is_list(found.type) or pa.types.is_large_list(found.type)
    if not (nested or pa.types.is_fixed_size_list(found.type)):
        plain: Array = found.to_numpy() if isinstance(found, pa.ChunkedArray) else found.to_numpy(zero_copy_only=False)
        return plain
    try:
        lists = np.array(found.to_pylist())
    except ValueError:
        raise InputError(f"the column {name!r} has lists of different lengths; bring them to one length") from None
    kind = found.type
    while (inner := getattr(kind, "value_type", None)) is not None:
        kind = inner
    if pa.types.is_integer(kind) and lists.dtype.kind == "f" and lists.size:
        # NumPy makes fractions of all whole numbers beside one of 2^63 or above, and rounds them
        raise InputError(
            f"the column {name!r} holds whole numbers of 2^63 or above, which int64 does not; convert it, to float64 "
            "if they are amounts, or to the numbers of categories if they are codes"
        )
    return lists
