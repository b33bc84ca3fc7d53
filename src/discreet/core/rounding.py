"""Numbers for people: a few significant digits, rounded to the side that promises less."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def rounded_up(value: float, digits: int = 5) -> str:
    """`value` to `digits` significant digits, rounded up: for an epsilon, or for noise."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 5) -> str:
    """`value` to `digits` significant digits, rounded down: for a lower bound."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal_from_float(value)):.{digits}g}"
