"""The minimum of a function of one positive number, by golden section.

(scipy.optimize would do, but takes longer to import than most answers take to compute.)
"""

from __future__ import annotations

import math
from collections.abc import Callable


def minimise(function: Callable[[float], float], low: float, high: float, precision: float) -> tuple[float, float]:
    """Argument and value of the minimum of a unimodal function on [low, high], to a relative `precision` of the
    argument: a search over log(argument)."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = math.log(low), math.log(high)
    inner = [right - ratio * (right - left), left + ratio * (right - left)]
    values = [function(math.exp(point)) for point in inner]
    while right - left > precision:
        if values[0] <= values[1]:
            right, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = right - ratio * (right - left)
            values[0] = function(math.exp(inner[0]))
        else:
            left, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = left + ratio * (right - left)
            values[1] = function(math.exp(inner[1]))
    best = int(values[1] < values[0])
    return math.exp(inner[best]), values[best]
