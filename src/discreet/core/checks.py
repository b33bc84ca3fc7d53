"""Checks of numbers, written so that NaN never passes (`not x > 0` refuses NaN, `x <= 0` would let it through).

Every check raises an `InputError` that begins with `name`. Python's own numbers are recognised by their type first:
asking the abstract types of numbers takes several times as long, and there are dozens of checks in a step.
"""

from __future__ import annotations

import math
import numbers
import re

from discreet.core.errors import InputError


def real(name: str, value: object) -> float:
    """Return `value` as a float. NaN, booleans and anything else that is not a real number are refused."""
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
        raise InputError(f"{name} must be a number, got {value!r}")
    try:
        result = float(value)
    except OverflowError:
        raise InputError(f"{name} is too large a number") from None
    if math.isnan(result):
        raise InputError(f"{name} must be a number, got NaN")
    return result


def positive(name: str, value: object) -> float:
    """Return `value` as a finite float greater than zero."""
    result = real(name, value)
    if not (result > 0 and math.isfinite(result)):
        raise InputError(f"{name} must be finite and greater than 0, got {value!r}")
    return result


def nonnegative(name: str, value: object) -> float:
    """Return `value` as a finite float of at least zero."""
    result = real(name, value)
    if not (result >= 0 and math.isfinite(result)):
        raise InputError(f"{name} must be finite and at least 0, got {value!r}")
    return result


def rate(name: str, value: object) -> float:
    """Return `value` as a float in (0, 1]."""
    result = real(name, value)
    if not 0 < result <= 1:
        raise InputError(f"{name} must be greater than 0 and at most 1, got {value!r}")
    return result


def open_unit(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1 (a delta, say)."""
    result = real(name, value)
    if not 0 < result < 1:
        raise InputError(f"{name} must be greater than 0 and less than 1, got {value!r}")
    return result


def count(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an integer of at least `least`. A float is refused even when it is whole."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    result = int(value)
    if not result >= least:
        raise InputError(f"{name} must be at least {least}, got {value!r}")
    return result


def two_ways(text: str) -> str | None:
    """What is wrong with the text of a count whose digits stand in groups: 2.000 is read as 2, and meant as 2000."""
    if re.fullmatch(r"[1-9]\d{0,2}([.,' ]\d{3})+", text):
        return f"{text} can be read in two ways; write {re.sub('[^0-9]', '', text)}"
    return None


def default_delta(population: float) -> float:
    """The power of ten below 1 / population, so that no single row may be given away whole."""
    return 10.0 ** -(math.floor(math.log10(population)) + 1)


def check_delta(population: float, delta: float | None) -> None:
    """Refuse a delta at which a run might publish a row as it is."""
    if delta is not None and 1 / population < delta < 1:
        raise InputError(
            f"delta {delta:g} is above 1 / population = {1 / population:.2g}: one row could be given away whole; say "
            f"delta {default_delta(population):g}, or leave it out"
        )
