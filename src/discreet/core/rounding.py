"""Numbers for people, rounded to the side that promises less.

A number is taken as it is written (its shortest decimal): 0.1 is 0.1, though the float is a little more. So what is
printed upwards, read as a float again, is never below the value, and downwards never above it.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

CONFIRMABLE = 1 + 5e-4
"""Claims are this many times what was proved or spent, so that another accountant, which rounds differently, can
confirm them."""


def rounded_up(value: float, digits: int = 5) -> str:
    """`value` to `digits` significant digits, rounded up: for an epsilon, or for noise."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 5) -> str:
    """`value` to `digits` significant digits, rounded down: for a lower bound."""
    return _rounded(value, digits, ROUND_FLOOR)


def delta_up(value: float) -> str:
    """A delta for a line: six significant digits, rounded up."""
    return rounded_up(value, 6)


def places_up(value: float | Decimal, places: int = 4) -> str:
    """`value` with `places` digits after the point, never below it."""
    return _placed(value, places, ROUND_CEILING)


def places_down(value: float | Decimal, places: int = 4) -> str:
    """`value` with `places` digits after the point, never above it."""
    return _placed(value, places, ROUND_FLOOR)


def as_written(value: float | Decimal) -> Decimal:
    """The shortest decimal that is read as this float; a decimal as it is."""
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))


def _placed(value: float | Decimal, places: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "infinite"
    step = Decimal(1).scaleb(-places)
    return f"{as_written(value).quantize(step, rounding, Context(prec=400)):f}"


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(as_written(value))):.{digits}g}"
