"""The values of one column of a block, read by the column's type: numbers, days, or numbers of categories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from discreet.core.array_types import Array, IntArray
from discreet.data.tables.columns import Boolean, Category, Date, Number

MISSING, UNSEEN = -1, -2
"""Numbers of no category."""

_SHOWN = 40


class BadValue(ValueError):
    """A value that its column's type does not allow: `row` counts from 0 within the block."""

    def __init__(self, row: int, fault: str) -> None:
        super().__init__(fault)
        self.row = row


@dataclass(frozen=True, slots=True)
class Marks:
    """How values are written: texts that stand for a missing one, the decimal mark, and whether spaces count."""

    missing: tuple[str, ...] = ("",)
    decimal: str = "."
    trim: bool = True


def amounts(values: pa.Array, column: Number | Date, marks: Marks) -> Array:
    """Numbers, or days since 1970, float64; NaN where they are missing. `BadValue` for others, infinity included."""
    values = _plain(values, marks)
    found = _numbers(values, marks) if isinstance(column, Number) else _days(values)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    wrong = ~np.isfinite(found) & ~missing
    if "nan" in (mark.lower() for mark in marks.missing):
        wrong &= ~np.isnan(found)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadValue(
            row,
            f"{_shown(values, row)} is not a finite number; if it stands for a missing value, say "
            f"missing: [{str(values[row].as_py())!r}] in the schema",
        )
    return found


def codes(values: pa.Array, column: Category | Boolean, marks: Marks) -> IntArray:
    """Numbers of categories, int64; `MISSING` and `UNSEEN` where there is none."""
    values = _plain(values, marks)
    texts = _as_texts(values)
    known = column.codes
    if isinstance(column, Boolean):
        texts = pc.utf8_lower(texts)
    places = pc.index_in(texts, value_set=pa.array(list(known), pa.string()))
    numbers = np.array([*known.values(), UNSEEN], np.int64)
    found: IntArray = numbers[pc.fill_null(places, len(known)).to_numpy(zero_copy_only=False)]
    found[values.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return found


def occurring(values: pa.Array, marks: Marks) -> list[tuple[str, int]]:
    """The texts of a column of categories that occur and are not missing, as `codes` compares them; how often each."""
    values = _plain(values, marks)
    if pa.types.is_null(values.type):
        return []
    found = pc.value_counts(_as_texts(values))
    pairs = zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
    return [(text, count) for text, count in pairs if text is not None]


def _as_texts(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        raise BadValue(0, f"the column is of type {values.type}, not text or a number; correct its type in the table")
    return pc.cast(values, pa.string())


def texts(values: pa.Array, marks: Marks) -> pa.Array:
    """Texts as they stand, null where they are missing."""
    values = _plain(values, marks)
    if not (pa.types.is_string(values.type) or pa.types.is_null(values.type)):
        raise BadValue(0, f"the column is of type {values.type}, not text; correct its type in the schema")
    return values


def identifiers(values: pa.Array, marks: Marks) -> pa.Array:
    """Whole numbers or texts as they stand; `BadValue` for a missing one."""
    values = _plain(values, marks)
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise BadValue(row, "the identifier is missing; say whose row it is, or remove it")
    if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
        return values
    raise BadValue(0, f"identifiers are of type {values.type}; they must be whole numbers or text")


def _plain(values: pa.Array, marks: Marks) -> pa.Array:
    """Without dictionaries; texts trimmed, and null where they stand for a missing value."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = pc.cast(values, pa.string())
    if not pa.types.is_string(values.type):
        return values
    if marks.trim:
        values = pc.utf8_trim_whitespace(values)
    missing = pc.is_in(values, value_set=pa.array(marks.missing, pa.string()))
    return pc.if_else(missing, pa.scalar(None, pa.string()), values)


def _numbers(values: pa.Array, marks: Marks) -> Array:
    if pa.types.is_string(values.type):
        if marks.decimal != ".":
            values = pc.replace_substring(values, marks.decimal, ".")
        try:
            return _floats(pc.cast(values, pa.float64()))
        except pa.ArrowInvalid:
            return np.array([_number(text, row) for row, text in enumerate(values.to_pylist())])
    kind = values.type
    if pa.types.is_boolean(kind):
        values = pc.cast(values, pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadValue(0, f"the column is of type {kind}, not a number; correct its type in the schema")
    return _floats(pc.cast(values, pa.float64(), safe=False))


def _number(text: str | None, row: int) -> float:
    try:
        return np.nan if text is None else float(text if "_" not in text else "_")
    except ValueError:
        raise BadValue(row, f"{text[:_SHOWN]!r} is not a number" if text else "there is no number") from None


def _days(values: pa.Array) -> Array:
    if pa.types.is_string(values.type):
        try:
            values = pc.cast(values, pa.date32())
        except pa.ArrowInvalid:
            for row, text in enumerate(values.to_pylist()):
                _refuse_no_day(text, row)
            raise
    elif not pa.types.is_temporal(values.type) or pa.types.is_time(values.type) or pa.types.is_duration(values.type):
        raise BadValue(0, f"the column is of type {values.type}, not a day; correct its type in the schema")
    return _floats(pc.cast(pc.cast(pc.cast(values, pa.date32(), safe=False), pa.int32()), pa.float64()))


def _refuse_no_day(text: str | None, row: int) -> None:
    try:
        pc.cast(pa.array([text], pa.string()), pa.date32())
    except pa.ArrowInvalid:
        raise BadValue(row, f"{str(text)[:_SHOWN]!r} is not a day such as 2024-12-31") from None


def _floats(values: pa.Array) -> Array:
    found: Array = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    return found


def _shown(values: pa.Array, row: int) -> str:
    return repr(str(values[row].as_py())[:_SHOWN])
