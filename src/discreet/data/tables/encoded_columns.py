"""One column of a block as encoded numbers by the schema, and the faults of values that it refuses."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pyarrow as pa

from discreet.core.array_types import Array, BoolArray
from discreet.core.errors import InputError
from discreet.data.tables.amounts import amounts
from discreet.data.tables.categories import Boolean, Category
from discreet.data.tables.columns import Date, Number
from discreet.data.tables.values import MISSING, UNSEEN, Faults, Marks, codes, first_rows_of, shown, texts
from discreet.data.tables.wide import FreeText, Wide
from discreet.data.tables.words import numbered

_NONE = -1.0
"""The encoding of a missing number."""

_ABSENT = "the value is missing; missing: drop, in a schema, leaves such rows out"

_REACH = 2.5
"""A predicted number's encoding is 1 at this multiple of its spread; nearly all values are within."""


def bounds_of(name: str, column: Number | Date) -> tuple[float, float]:
    """The range of a column. `InputError` if it is not bought yet."""
    if column.bounds is None:
        raise InputError(f"schema: the range of {name} is not bought yet")
    return column.bounds


def places(
    column: Number | Date,
    bounds: tuple[float, float],
    values: pa.Array,
    marks: Marks,
    kept: BoolArray,
    *,
    predicted: bool,
) -> tuple[Array, Faults]:
    """Places within `bounds`, from 0 to 1, and `_NONE` where a value is missing; from -1 to 1 for the target."""
    low, high = bounds
    found, faults = amounts(values, column, marks)
    leave_out = partial(_leave_out, kept, values, marks, faults)
    sound = np.ones(len(found), np.bool_)
    sound[list(faults)] = False
    missing = np.isnan(found)
    outside = (found < low) | (found > high)
    rule = column.outside or ("refuse" if predicted else "clip")
    if rule == "missing":
        missing |= outside
    elif rule != "clip":
        leave_out(outside, rule, f"{{}} is outside of {_range_in_words(column, bounds)}")
    absent = column.missing or ("refuse" if predicted else "flag")
    if absent != "flag":
        leave_out(missing & sound, absent, _ABSENT)
    clipped = np.clip(found, low, high)
    if predicted and (scale := _target_scale(column, bounds)) is not None:
        return (clipped - scale[0]) / scale[1], faults
    within = (clipped - low) / (high - low)
    if column.scale == "log":
        within = np.log1p(clipped - low) / np.log1p(high - low)
    if predicted:
        return 2 * within - 1, faults
    within[missing] = _NONE
    return within, faults


def _range_in_words(column: Number | Date, bounds: tuple[float, float]) -> str:
    low, high = (column.low, column.high) if isinstance(column, Date) else (f"{end:.15g}" for end in bounds)
    return f"{low} to {high}"


def amounts_of(column: Number | Date, bounds: tuple[float, float], outputs: Array) -> Array:
    """Amounts within `bounds` for a model's outputs: the inverse of `places` for the target."""
    low, high = bounds
    if (scale := _target_scale(column, bounds)) is not None:
        return np.asarray(np.clip(scale[0] + outputs * scale[1], low, high))
    return amounts_at(column, bounds, (np.clip(outputs, -1.0, 1.0) + 1) / 2)


def amounts_at(column: Number | Date, bounds: tuple[float, float], within: Array) -> Array:
    """Amounts at places within `bounds`, from 0 to 1, on the scale of the column."""
    low, high = bounds
    if column.scale == "log":
        within = np.expm1(within * np.log1p(high - low)) / (high - low)
    return np.asarray(low + within * (high - low))


def numbers_of(
    column: Category | Boolean, size: int, values: pa.Array, marks: Marks, kept: BoolArray, *, predicted: bool
) -> tuple[Array, Faults]:
    """(k + 1/2) / size for the k-th of `size` categories; k for the target."""
    faults: Faults = {}
    leave_out = partial(_leave_out, kept, values, marks, faults)
    found = codes(values, column, marks)
    rule = column.unseen or ("refuse" if predicted else "other")
    unseen = found == UNSEEN
    if rule == "missing":
        found[unseen] = MISSING
    elif rule == "other":
        found[unseen] = column.width
    else:
        which = " ({})" if marks.show else ""
        leave_out(unseen, rule, f"the value is none of the declared categories{which}")
    absent = column.missing or ("refuse" if predicted else "flag")
    missing = found == MISSING
    if absent == "flag":
        found[missing] = size - 1
    else:
        leave_out(missing, absent, _ABSENT)
    numbers = found.astype(np.float64)
    return (numbers if predicted else (numbers + 0.5) / size), faults


def wide(column: Wide, values: pa.Array, marks: Marks, kept: BoolArray) -> tuple[Array, Faults]:
    """The pixels that `images.opened` put into the block, or the numbers of words; a row without any is dropped."""
    faults: Faults = {}
    if not isinstance(column, FreeText):
        pixels = np.zeros((len(values), math.prod(column.shape)), np.float32)
        for row, content in enumerate(values):
            if content.is_valid:
                pixels[row] = np.frombuffer(content.as_buffer(), np.uint8)
        kept &= values.is_valid().to_numpy(zero_copy_only=False)
        pixels /= 255
        return pixels, faults
    found = texts(values, marks)
    missing = found.is_null().to_numpy(zero_copy_only=False)
    if column.missing in ("drop", "refuse"):
        _leave_out(kept, values, marks, faults, missing, column.missing, "the text is missing")
    return numbered([text or "" for text in found.to_pylist()], column), faults


def _target_scale(column: Number | Date, bounds: tuple[float, float]) -> tuple[float, float] | None:
    """For a target with a declared spread: the amount encoded as 0, and how much more is encoded as 1."""
    if isinstance(column, Date) or column.spread is None:
        return None
    return sum(bounds) / 2 if column.centre is None else column.centre, _REACH * column.spread


def _leave_out(
    kept: BoolArray, values: pa.Array, marks: Marks, faults: Faults, wrong: BoolArray, rule: str, fault: str
) -> None:
    """Drop the `wrong` rows of those that are `kept`, or record their faults; {} in a fault stands for the value in the
    file."""
    if rule == "drop":
        kept &= ~wrong
        return
    for row in first_rows_of(wrong & kept):
        faults.setdefault(row, fault.format(shown(values, row, marks)) if "{" in fault else fault)
