"""Ellipsoid clipping: in public scales, all parameters together to one norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from discreet.plan.clip_rules.base import ClipNorm, InScales, StepClip


class EllipsoidClipping(InScales):
    """One unit's gradient, divided by the scales, is scaled down to L2 norm at most `norm`; noise has their shape."""

    GRADIENT = "is divided by public scales, number by number, and then scaled down to length at most {norm}"
    UNIT = "{norm} and the scales"
    CELL = "{norm}, in public scales"
    kind: Literal["ellipsoid"] = "ellipsoid"
    norm: ClipNorm = 1.0

    def at(self, step: int, norm: float | None, multiplier: float) -> StepClip:
        return StepClip(self.norm)

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        return {"sensitivity": self.norm}
