"""Private rows: an array of numbers, and sums over it that are exact integers.

A row with a number that is not finite contributes zero to every query. Sums add whole numbers, which are as large as
they get, so their order does not matter, nothing is rounded, and none wraps around.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from discreet.core import checks
from discreet.core.array_types import Array, IntArray
from discreet.core.errors import InputError

Q = TypeVar("Q", bound=Any)
"""A query."""

Whole = npt.NDArray[np.object_]
"""Whole numbers of Python, of any size."""

_ROUNDOFF = 2.0**-52
_CHUNK = 2048
_HALF_BITS = 32
GRAM_BITS = 21
"""2,048 products of numbers below 2^21 add up to at most 2^53, so a matrix product in float64 is exact."""


def private_rows(data: npt.ArrayLike) -> Array:
    """`data` as float64 of shape (rows, columns); a vector is one column. `InputError` if that is impossible."""
    if np.ma.is_masked(data):
        raise InputError(
            "data has masked values, which are no numbers; fill them, with NaN say: such rows do not count"
        )
    try:
        given = np.asarray(data.detach() if hasattr(data, "detach") else data)
        if given.dtype.kind in "cmMSU":
            # Complex numbers; times, which count in a unit of their own from 1970; and texts: NumPy makes one of every
            # number in a list as soon as one cell is a text, and rounds those in single precision otherwise then.
            raise TypeError
        rows = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("data must be an array of numbers; encode categories as numbers first") from None
    if rows.ndim == 1:
        rows = rows[:, np.newaxis]
    if rows.ndim != 2:
        raise InputError(f"data must have shape (rows, columns), got {rows.ndim} axes; flatten each record to a row")
    return rows


def usable(rows: Array) -> Array:
    """The rows in which every number is finite."""
    return rows[np.isfinite(rows).all(axis=1)]


Column = int | str
"""A column by its number, from 0, or by its name in a frame."""


def check_column(name: str, column: object) -> Column:
    """The column that was given for `name`; `InputError` for what is neither a number nor a name."""
    return column if isinstance(column, str) else checks.count(name, column, least=0)


def columns_of(rows: Array, columns: Sequence[Column] | None) -> Array:
    """The given columns of `rows`, all if None; `InputError` if one does not exist, or is named: see `numbered`."""
    if columns is None:
        return rows
    places: list[int] = []
    for column in columns:
        if isinstance(column, str):
            raise InputError(
                f"the data is an array, whose columns have no names; give the number of {column!r}, from 0"
            )
        if column >= rows.shape[1]:
            raise InputError(f"the data has {rows.shape[1]} columns, so there is no column {column}")
        places.append(column)
    return rows[:, places]


def numbered(query: Q, data: object) -> Q:
    """The query with numbers for the columns that it names; `InputError` unless the frame `data` has each name once.

    The names of a frame are public: they are shown in errors.
    """
    named = getattr(data, "columns", None)
    if isinstance(of_arrow := getattr(data, "column_names", None), list):
        named = of_arrow
    names = None if named is None else [str(name) for name in named]

    def number(column: Column) -> Column:
        if names is None or not isinstance(column, str):
            return column
        if names.count(column) != 1:
            how = "no column" if column not in names else "several columns"
            raise InputError(f"the data has {how} {column!r}; it has {', '.join(names):.200}")
        return names.index(column)

    changes: dict[str, object] = {}
    if isinstance(one := getattr(query, "column", None), str):
        changes["column"] = number(one)
    if (several := getattr(query, "columns", None)) is not None:
        changes["columns"] = tuple(map(number, several))
    return replace(query, **changes) if changes else query


def clipped_units(rows: Array, bound: float, unit: float) -> IntArray:
    """Each row scaled to an L2 norm of at most `bound`, as whole multiples of `unit`; shape of `rows`.

    norm(result row) x unit <= bound holds in exact arithmetic: the limit on the floating-point norm is below `bound` by
    more than all rounding errors, and multiples are rounded towards zero.
    """
    limit = bound * (1 - (rows.shape[1] + 16) * _ROUNDOFF)
    with np.errstate(all="ignore"):
        peak = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        safe = np.where(peak > 0, peak, 1.0)
        scaled = rows / safe
        length = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))  # at least 1, or 0 for a row of zeros
        shrink = length > limit / safe  # length x peak > limit, without its overflow
        clipped = np.where(shrink, scaled * (limit / length), rows)
        units = np.trunc(clipped / unit)
    return np.where(np.isfinite(units), units, 0.0).astype(np.int64)


def chunks(rows: Array) -> Iterator[Array]:
    """The rows in chunks of at most 2,048."""
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def unit_sum(rows: Array, bound: float, unit: float) -> Whole:
    """The exact sum of `clipped_units`, shape (columns,). A `bound` of at most 2^51 units keeps a chunk in 64 bits."""
    return _added((clipped_units(part, bound, unit).sum(axis=0) for part in chunks(rows)), rows.shape[1:])


def unit_gram(rows: Array, bound: float, bits: int) -> Whole:
    """The exact sum of outer products of rows clipped to `bound`, in multiples of (bound / 2^bits)^2.

    Shape (columns, columns). `bits` at most `GRAM_BITS`; one row contributes at most 2^(2 bits) in Frobenius norm.
    """

    def gram(part: Array) -> IntArray:
        units = clipped_units(part, bound, bound * 2.0**-bits).astype(np.float64)
        return (units.T @ units).astype(np.int64)

    return _added(map(gram, chunks(rows)), (rows.shape[1], rows.shape[1]))


def _added(parts: Iterable[IntArray], shape: tuple[int, ...]) -> Whole:
    """The exact sum of the parts. 64 bits do not hold it of many rows: the halves of their numbers are added apart."""
    high, low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for part in parts:
        high += part >> _HALF_BITS
        low += part & (2**_HALF_BITS - 1)
    total: Whole = high.astype(object) * 2**_HALF_BITS + low
    return total
