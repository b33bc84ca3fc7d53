"""The values of one column of a block as texts, identifiers or numbers of categories; `amounts` reads numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from discreet.core.array_types import BoolArray, IntArray
from discreet.data.tables.categories import Boolean, Category
from discreet.data.tables.problems import MOST

MISSING, UNSEEN = -1, -2
"""Codes for values without a category."""

_EXACT = 2.0**53
"""Whole numbers below this are exact as floating-point numbers."""

_SHOWN = 40
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")


class BadValue(ValueError):
    """A value that its column's type does not allow: `row` counts from 0 within the block."""

    def __init__(self, row: int, fault: str) -> None:
        super().__init__(fault)
        self.row = row


Faults = dict[int, str]
"""Faults of refused values, by row within the block; of the first such values only."""


@dataclass(frozen=True, slots=True)
class Marks:
    """How values are written: texts for a missing value, decimal and thousands mark, whether spaces around a value
    count; and whether faults `show` the value."""

    missing: tuple[str, ...] = ("",)
    decimal: str = "."
    thousands: str | None = None
    trim: bool = True
    show: bool = True


def codes(values: pa.Array, column: Category | Boolean, marks: Marks) -> IntArray:
    """Numbers of categories, int64; `MISSING` and `UNSEEN` where there is none."""
    values = plain(values, marks)
    texts = _as_texts(values, marks)
    known = column.codes
    if isinstance(column, Boolean):
        texts = pc.utf8_lower(texts)
    elif column.numeric:
        texts = _as_numbers(texts, marks)
        known = {text: known[name] for text, name in category_of(column, marks).items()}
    places = pc.index_in(texts, value_set=pa.array(list(known), pa.string()))
    numbers = np.array([*known.values(), UNSEEN], np.int64)
    found: IntArray = numbers[pc.fill_null(places, len(known)).to_numpy(zero_copy_only=False)]
    found[values.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return found


def occurring(values: pa.Array, marks: Marks, *, numeric: bool = False) -> list[tuple[str, int]]:
    """The texts that occur in a column, in the form that `codes` compares, with their counts; missing values are left
    out. `numeric`: as of a `Category`."""
    values = plain(values, marks)
    if pa.types.is_null(values.type):
        return []
    texts = _as_texts(values, marks)
    found = pc.value_counts(_as_numbers(texts, marks) if numeric else texts)
    pairs = zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
    return [(text, count) for text, count in pairs if text is not None]


def _as_texts(values: pa.Array, marks: Marks) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise BadValue(
            0, f"the column is of type {type_name(kind, marks)}, not text or a number; correct its type in the table"
        )
    if pa.types.is_floating(kind):
        return _of_floats(values, marks)
    if pa.types.is_timestamp(kind) and kind.tz is None:  # as `cell_text` has them
        found = pc.cast(pc.cast(values, pa.timestamp("s"), safe=False), pa.string())
        return pc.replace_substring_regex(found, " 00:00:00$", "")
    return pc.cast(values, pa.string())


def _of_floats(values: pa.Array, marks: Marks) -> pa.Array:
    """Texts of numbers; whole ones as a column of whole numbers has them, 12345678901 and not 1.2345678901e+10: one
    missing cell makes fractions of all others. `BadValue` for a whole one that may have lost digits by that."""
    numbers = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
    whole = np.isfinite(numbers) & (numbers == np.trunc(numbers))
    large = whole & (np.abs(numbers) >= _EXACT)
    if large.any():
        row = int(np.argmax(large))
        raise BadValue(
            row,
            f"{shown(values, row, marks)} is too large a whole number to be exact in a column with fractions or gaps; "
            "give the codes as texts, or as whole numbers of a type that has gaps (Int64 of pandas)",
        )
    exact = pc.cast(pa.array(numbers, mask=~whole).cast(pa.int64()), pa.string())
    return pc.if_else(pa.array(whole), exact, pc.cast(values, pa.string()))


def texts(values: pa.Array, marks: Marks) -> pa.Array:
    """Texts as they stand, null where they are missing."""
    values = plain(values, marks)
    if not (pa.types.is_string(values.type) or pa.types.is_null(values.type)):
        raise BadValue(
            0,
            f"the column is of type {type_name(values.type, marks)}, not text; name another, or correct its type in a "
            "schema",
        )
    return values


def identifiers(values: pa.Array, marks: Marks) -> pa.Array:
    """Whole numbers or texts as they stand; `BadValue` for a missing one. A number that stands for a missing value
    elsewhere, such as 99, may be somebody's identifier."""
    texts_only = tuple(mark for mark in marks.missing if not _NUMBER.fullmatch(mark))
    values = plain(values, replace(marks, missing=texts_only))
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise BadValue(row, "the identifier is missing; say whose row it is, or remove it")
    if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
        return values
    raise BadValue(0, f"identifiers are of type {type_name(values.type, marks)}; they must be whole numbers or text")


def plain(values: pa.Array, marks: Marks) -> pa.Array:
    """The values without dictionary encoding, with texts trimmed, and null where a text or number stands for a missing
    value."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = pc.cast(values, pa.string())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = [float(mark) for mark in marks.missing if _NUMBER.fullmatch(mark)]
        coded = pc.is_in(pc.cast(values, pa.float64(), safe=False), value_set=pa.array(numbers, pa.float64()))
        return pc.if_else(coded, pa.scalar(None, values.type), values) if numbers else values
    if not pa.types.is_string(values.type):
        return values
    if marks.trim:
        values = pc.utf8_trim_whitespace(values)
    missing = pc.is_in(values, value_set=pa.array(marks.missing, pa.string()))
    return pc.if_else(missing, pa.scalar(None, pa.string()), values)


def _as_numbers(texts: pa.Array, marks: Marks) -> pa.Array:
    found = texts.dictionary_encode()
    spellings = [as_number(text, marks) for text in found.dictionary.to_pylist()]
    return pa.array(spellings, pa.string()).take(found.indices)


def first_rows_of(wrong: BoolArray) -> list[int]:
    """The first wrong rows, as many as are reported."""
    return [int(row) for row in np.flatnonzero(wrong)[:MOST]]


def shown(values: pa.Array, row: int, marks: Marks) -> str:
    """A value of the file for a message, shortened; only "the value" where values are not to be shown."""
    return repr(str(values[row].as_py())[:_SHOWN]) if marks.show else "the value"


def type_name(kind: pa.DataType, marks: Marks) -> str:
    """A type for a message; its name alone where values are not to be shown: the fields of a struct, for example, are
    named by keys of its cells."""
    return str(kind) if marks.show else re.split(r"[<(\[]", str(kind))[0]


def category_of(column: Category, marks: Marks) -> dict[str, str]:
    """The category of each text that the column names, in the form that `codes` compares. `ValueError` if one number is
    two categories."""
    named = {name: name for name in (*column.categories, *column.same.values())} | dict(column.same)
    if not column.numeric:
        return named
    found: dict[str, str] = {}
    written: dict[str, str] = {}
    for text, name in named.items():
        number = as_number(text, marks)
        if found.setdefault(number, name) != name:
            raise ValueError(
                f"{written[number]!r} and {text!r} are one number with numeric: true, and two categories here; leave "
                "one of them out, or leave out numeric"
            )
        written.setdefault(number, text)
    return found


def as_number(text: str, marks: Marks) -> str:
    """One spelling for each number: 1, 1.0 and 01 are 1. Other texts as they are."""
    try:
        value = float(text.replace(marks.decimal, "."))
    except ValueError:
        return text
    return str(int(value)) if value.is_integer() else repr(value)
