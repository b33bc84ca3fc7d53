"""Numbers and days of a column, and the faults of values that are neither."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from discreet.core.array_types import Array, BoolArray
from discreet.data.tables.columns import EPOCH, Date, Number
from discreet.data.tables.values import BadValue, Faults, Marks, first_rows_of, plain, shown, type_name

_CENSORED = re.compile(r"\s*(?:<=|>=|[<>≤≥])\s*")
_COMMA = re.compile(r"\s*(?:<=|>=|[<>≤≥])?\s*[+-]?\d+,\d+\s*")
_UNREADABLE = "?"

PERHAPS_ABSENT = ("None", "-", "unknown", "missing", "unbekannt")
"""Texts that among numbers stand for a missing value, and elsewhere may be a category."""


def amounts(values: pa.Array, column: Number | Date, marks: Marks) -> tuple[Array, Faults]:
    """Numbers, or days since 1970, float64; NaN where a value is missing or faulty (infinite values are faults)."""
    values = plain(values, marks)
    return _days(values, column.format, marks) if isinstance(column, Date) else _numbers(values, column, marks)


def _numbers(values: pa.Array, column: Number, marks: Marks) -> tuple[Array, Faults]:
    absent = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_string(values.type):
        found, faults, absent = _of_texts(values, column, marks, absent)
    else:
        found, faults = _of_type(values, marks), {}
    if "nan" in (mark.lower() for mark in marks.missing):
        absent = absent | np.isnan(found)
    for row in first_rows_of(~np.isfinite(found) & ~absent):
        way = f"say missing: [{str(values[row].as_py())!r}] in the schema" if marks.show else "give None in its place"
        faults.setdefault(
            row, f"{shown(values, row, marks)} is not a finite number; if it stands for a missing value, {way}"
        )
    found[list(faults)] = np.nan
    return found, faults


def _of_type(values: pa.Array, marks: Marks) -> Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        values = pc.cast(values, pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadValue(
            0, f"the column is of type {type_name(kind, marks)}, not a number; correct its type in the schema"
        )
    return _floats(pc.cast(values, pa.float64(), safe=False))


def _of_texts(values: pa.Array, column: Number, marks: Marks, absent: BoolArray) -> tuple[Array, Faults, BoolArray]:
    """Numbers, faults, and which values are missing; censored values are missing if the column says so."""
    unmarked = _unmarked(values, marks)
    try:
        return _floats(pc.cast(unmarked, pa.float64())), {}, absent
    except pa.ArrowInvalid:
        found, faults, absent = np.full(len(values), np.nan), Faults(), absent.copy()
    for row, text in enumerate(unmarked.to_pylist()):
        if text is None:
            continue
        number = _number(text)
        limit = _CENSORED.match(text)
        if number is None and limit is not None and column.censored in ("bound", "missing"):
            number = _number(text[limit.end() :])
            absent[row] = column.censored == "missing" and number is not None
        if absent[row]:
            continue
        if number is None:
            limited = limit is not None and column.censored not in ("bound", "missing")
            faults[row] = _no_number(values, row, limited, marks)
        else:
            found[row] = number
    return found, faults, absent


def _unmarked(values: pa.Array, marks: Marks) -> pa.Array:
    """Texts without thousands marks and with a decimal point; "?" where a mark is in a place where it cannot be."""
    wrong = pa.array(np.zeros(len(values), np.bool_))
    if marks.thousands is not None:
        groups = rf"[0-9]{{1,3}}(?:{re.escape(marks.thousands)}[0-9]{{3}})+"
        grouped = pc.match_substring_regex(values, rf"^[<>=≤≥\s+-]*{groups}(?:{re.escape(marks.decimal)}[0-9]+)?$")
        values = pc.if_else(grouped, pc.replace_substring(values, marks.thousands, ""), values)
        wrong = pc.match_substring(values, marks.thousands)
    if marks.decimal != ".":
        wrong = pc.or_(wrong, pc.match_substring(values, "."))
        values = pc.replace_substring(values, marks.decimal, ".")
    return pc.if_else(wrong, pa.scalar(_UNREADABLE), values)


def _number(text: str) -> float | None:
    try:
        return float(text if "_" not in text else "_")
    except ValueError:
        return None


def _no_number(values: pa.Array, row: int, limited: bool, marks: Marks) -> str:
    said, text = shown(values, row, marks), str(values[row].as_py())
    if limited:
        return f"{said} is a limit and no number; say censored: bound (takes the limit), or missing, of the column"
    if marks.decimal != "," and _COMMA.fullmatch(text):
        return f"{said} is not a number: the decimal mark is {marks.decimal!r}; say csv: {{decimal: ','}} if a comma is"
    if marks.decimal != "." and "." in text:
        return f"{said} has a point, and the decimal mark is {marks.decimal!r}; say csv: {{thousands: .}} if it is that"
    if text.strip("'\"").lower() in ("true", "false"):
        return f"{said} is not a number; write 1 and 0, or declare the column as boolean"
    if text in PERHAPS_ABSENT and marks.show:
        return f"{said} is not a number; if it stands for a missing value, add it to missing in the schema"
    return f"{said} is not a number"


def _days(values: pa.Array, written: str | None, marks: Marks) -> tuple[Array, Faults]:
    if not pa.types.is_string(values.type):
        if not pa.types.is_temporal(values.type) or pa.types.is_time(values.type) or pa.types.is_duration(values.type):
            raise BadValue(
                0, f"the column is of type {type_name(values.type, marks)}, not a day; correct its type in the schema"
            )
        return _since_1970(pc.cast(values, pa.date32(), safe=False)), {}
    if written is None:
        try:
            return _since_1970(pc.cast(values, pa.date32())), {}
        except pa.ArrowInvalid:
            pass
    known = values.dictionary_encode()
    days = [_day(text, written) for text in known.dictionary.to_pylist()]
    places = pc.fill_null(known.indices, len(days)).to_numpy(zero_copy_only=False)
    found = np.array([*(np.nan if day is None else day for day in days), np.nan])[places]
    wrong = np.isnan(found) & ~values.is_null().to_numpy(zero_copy_only=False)
    example = "2024-12-31" if written is None else datetime.date(2024, 12, 31).strftime(written)
    return found, {row: f"{shown(values, row, marks)} is not a day such as {example}" for row in first_rows_of(wrong)}


def _day(text: str, written: str | None) -> float | None:
    """Days since 1970, of a text in the declared format, or as 2024-12-31."""
    if written is not None:
        try:
            return float((datetime.datetime.strptime(text, written).date() - EPOCH).days)
        except ValueError:
            pass
    try:
        return float(_since_1970(pc.cast(pa.array([text], pa.string()), pa.date32()))[0])
    except pa.ArrowInvalid:
        return None


def _since_1970(values: pa.Array) -> Array:
    return _floats(pc.cast(pc.cast(values, pa.int32()), pa.float64()))


def _floats(values: pa.Array) -> Array:
    found: Array = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    return found
