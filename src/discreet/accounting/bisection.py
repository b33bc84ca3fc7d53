"""Bisection: two numbers closer together, of which one was seen to fail a condition and the other to meet it."""

from __future__ import annotations

import math
from collections.abc import Callable


def bisect(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    geometric: bool = False,
) -> tuple[float, float]:
    """(low, high), closer together: `holds` is still false at `low` and true at `high`, as at the two given.

    So an answer is rounded up by taking `high`, and down by taking `low`, also where rounding makes `holds` change more
    than once. They end at most `absolute` + `relative` x high apart, or next to each other. `geometric`: for positive
    numbers whose size is unknown, the middle is the geometric mean.
    """
    while high - low > absolute + relative * high:
        middle = math.sqrt(low * high) if geometric else 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
