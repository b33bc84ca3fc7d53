"""Checks of scikit-learn, with errors that tell the place of a fault and never a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from discreet.core.errors import InputError

Result = TypeVar("Result")

_BY_SCHEMA = "give a frame with columns={...}, which takes texts, dates and gaps (docs/estimators.md, mixed columns)"

_SHOWS_A_CELL = ("could not convert", "cannot convert", "invalid literal", "unable to parse", "cannot interpret")
"""Beginnings of errors that end with the value itself."""


def plain(check: Callable[[], Result], **given: object) -> Result:
    """The result of `check`; an error of scikit-learn becomes an `InputError` of one line, without values of rows.

    `given`: the checked objects by name; the error names row and column of the first cell that is no number.
    """
    try:
        return check()
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        first, *rest = str(error).splitlines() or [type(error).__name__]
        if any(begin in first.lower() for begin in _SHOWS_A_CELL):
            raise InputError(_first_text(given)) from None
        advice = [line for line in rest if line.startswith("Reshape")]  # never its advice on missing values
        if "NaN" in first and (place := _first_cell(given, _is_gap)) is not None:
            way = "leave the row out" if " of y" in place else f"fill it with a public value, or {_BY_SCHEMA}"
            advice = [f"The first is {place}; {way}"]
        raise InputError(" ".join([first, *advice])) from None


def _first_text(given: dict[str, object]) -> str:
    place = _first_cell(given, _is_text)
    if place is None:
        return "a cell is no number; encode texts as numbers, or leave them out"
    return f"{place}, is no number; encode it, leave it out, or {_BY_SCHEMA}"


def _first_cell(given: dict[str, object], wrong: Callable[[Any], bool]) -> str | None:
    """The place of the first cell that is wrong, in words; None if there is none."""
    for name, values in given.items():
        table = np.asarray(values, dtype=object)
        columns = list(getattr(values, "columns", ()))
        for place in np.ndindex(table.shape[:2] if table.ndim else (0,)):  # only an array has cells
            if wrong(table[place]):
                column = "" if len(place) < 2 else f", column {columns[place[1]] if columns else place[1]!r}"
                return f"row {place[0]} of {name}{column}, counted from 0"
    return None


def _is_gap(cell: Any) -> bool:
    try:
        return math.isnan(float(cell))
    except (ValueError, OverflowError):
        return False  # a text
    except TypeError:
        return True  # None, or a missing value of pandas


def _is_text(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError, OverflowError):
        return True
    return False
