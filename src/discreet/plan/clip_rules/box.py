"""Box clipping: in public scales, number by number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from discreet.plan.clip_rules.base import InScales


class BoxClipping(InScales):
    """Each number of one unit's gradient is clipped to its scale (ADADP's local clipping); noise has their shape."""

    GRADIENT = "is divided by public scales, number by number, and every number is then cut to the range from -1 to 1"
    UNIT = "{sensitivity} and the scales"
    CELL = "every number to its public scale"
    BOX = True
    kind: Literal["box"] = "box"

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        numbers = sum(sizes.values())
        return {"coordinates": numbers, "sensitivity": math.sqrt(numbers)}
