"""The kind of values in each column, from the first rows of a table. Nothing but the kind is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from discreet.data.tables.amounts import PERHAPS_ABSENT, amounts
from discreet.data.tables.columns import LARGEST, Date, Number
from discreet.data.tables.values import Marks, plain

Name = Literal["whole", "number", "boolean", "date", "text", "other"]

DATE_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%Y-%m-%d %H:%M:%S")
"""Formats of dates beside 2024-12-31. A column that fits several of them is left open."""

_BOOLEANS = tuple(
    {*pair.split("/")}
    for pair in ("true/false", "yes/no", "ja/nein", "wahr/falsch", "oui/non", "vrai/faux", "si/no", "sí/no")
)
_LIMIT = r"^\s*(?:<=|>=|[<>≤≥])\s*[0-9]"
_GROUPED = r"^[-+<>=≤≥\s]*[1-9][0-9]{0,2}[.,][0-9]{3}$"
ABSENT = (
    *("", "NA", "N/A", "n/a", "n.a.", "#N/A", "nan", "NaN", "NULL", "null", "?", "--", "."),
    *("k.A.", "k. A.", "k.A", "keine Angabe", "fehlt"),
)
"""Texts that stand for a missing value in any column: hardly a form has them as a category."""

_EVER = (*ABSENT, *PERHAPS_ABSENT)
"""Texts that stand for a missing value wherever they occur among numbers or days."""

WIDEST = {"low": -LARGEST, "high": LARGEST}
WIDEST_DAYS = {"low": "0001-01-01", "high": "9999-12-31"}


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` of the kind. `format` of dates, if not 2024-12-31; `formats` that fit, where more than one does. `limits`:
    some numbers are limits, <0.5. `pointed`: some have a decimal mark. `grouped`: every one of these could as well
    separate thousands, 1.234. `thousands`: whether numbers have that mark, and if so, whether it could be the decimal
    mark as well."""

    name: Name
    format: str | None = None
    formats: tuple[str, ...] = ()
    limits: bool = False
    pointed: bool = False
    grouped: bool = False
    thousands: Literal["none", "sure", "open"] = "none"


_SAMPLE = 100
"""Dates are looked for in so many values first: one that is no date settles a column of any length."""


def column_kind(values: pa.Array, marks: Marks) -> Kind:
    """The kind of the first values of a column. Values that stand for a missing one do not count."""
    values = plain(values, Marks(_EVER, marks.decimal, marks.thousands, marks.trim)).drop_null()
    if not pa.types.is_string(values.type):
        return _of_type(values.type)
    if not len(values):
        return Kind("text")
    lower = set(pc.unique(pc.utf8_lower(values)).to_pylist())
    if any(lower <= pair for pair in _BOOLEANS):
        return Kind("boolean")
    column = Number.model_validate(WIDEST | {"censored": "bound"})
    found, faults = amounts(values, column, marks)
    if not faults:
        limits = bool(pc.any(pc.match_substring_regex(values, _LIMIT)).as_py())
        pointed, grouped = _marked(values, marks.decimal)
        parted, either = _marked(values, marks.thousands)
        thousands: Literal["none", "sure", "open"] = "none" if not parted else "open" if either else "sure"
        if bool((found == np.round(found)).all()) and not pointed and not limits:
            return Kind("whole", thousands=thousands)
        return Kind("number", limits=limits, pointed=pointed, grouped=grouped, thousands=thousands)
    if _all_days(values, None):
        return Kind("date")
    fitting = tuple(one for one in DATE_FORMATS if _all_days(values, one))
    if len(fitting) > 1:
        return Kind("date", formats=fitting)
    return Kind("date", fitting[0]) if fitting else Kind("text")


def _marked(values: pa.Array, mark: str | None) -> tuple[bool, bool]:
    """Whether some numbers contain the mark; and whether all of those are ambiguous, as 1.234 is."""
    if mark is None:
        return False, False
    marked = values.filter(pc.match_substring(values, mark))
    return len(marked) > 0, len(marked) > 0 and bool(pc.all(pc.match_substring_regex(marked, _GROUPED)).as_py())


def whole(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    found = rows.column(name).combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _all_days(values: pa.Array, written: str | None) -> bool:
    if len(values) > _SAMPLE and not _all_days(values[:_SAMPLE], written):
        return False
    return not amounts(values, Date.model_validate(WIDEST_DAYS | {"format": written}), Marks())[1]


def _of_type(kind: pa.DataType) -> Kind:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return Kind("boolean")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Kind("date")
    if pa.types.is_integer(kind):
        return Kind("whole")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Kind("number")
    return Kind("text") if pa.types.is_string(kind) or pa.types.is_large_string(kind) else Kind("other")
