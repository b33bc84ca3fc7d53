"""Flat clipping: all parameters together, to one norm."""

from __future__ import annotations

from typing import Literal

from discreet.plan.clip_rules.base import ClipNorm, ClipRule, StepClip


class FlatClipping(ClipRule):
    """One unit's gradient, all parameters together, is scaled down to L2 norm at most `norm`."""

    UNCHANGING = True
    GRADIENT = "is scaled down to length at most {norm}"
    UNIT = "{norm}"
    CELL = "{norm}"
    kind: Literal["flat"] = "flat"
    norm: ClipNorm

    @property
    def first_norm(self) -> float:
        return self.norm

    def norm_at(self, step: int) -> float:
        return self.norm

    def tried(self) -> tuple[StepClip, ...]:
        return (StepClip(min(1.0, self.norm)),)
