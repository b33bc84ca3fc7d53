"""Cells of any type as texts. How a cell is written depends on nothing but the cell."""

from __future__ import annotations

import datetime
import json
from numbers import Integral, Real
from typing import Any

import numpy as np

_EXACT = 2.0**53
"""Whole numbers below this are exact as floating-point numbers."""


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, or unequal to itself as NaN is, or pandas' NA, for which that is unknown."""
    same: object = value is not None and value == value
    return not same if isinstance(same, bool | np.bool_) else type(same).__name__ == "NAType"


def cell_text(value: Any, decimal: str, day: str | None = None) -> str | None:
    """The text of a cell as a CSV file with this decimal mark has it; None for an empty cell.

    A list or an object, as JSON has them, is its JSON text; a time at midnight is its day. `day`: how a column of days
    writes them, as of `strftime`; the time of day is left out then.
    """
    if is_missing(value):
        return None
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if str(value) in ("True", "False") and not isinstance(value, str):
        return str(value).lower()
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        whole = number.is_integer() and abs(number) < _EXACT
        return str(int(number)) if whole else str(value).replace(".", decimal)
    if day is not None and isinstance(value, datetime.date):
        return value.strftime(day)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    return str(value)
