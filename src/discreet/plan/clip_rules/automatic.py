"""Automatic clipping: every gradient is scaled to nearly the same length."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from discreet.plan.clip_rules.base import ClipNorm, ClipRule, StepClip


class AutomaticClipping(ClipRule):
    """One unit's gradient g, all parameters together, becomes norm x g / (||g|| + gamma), which is shorter than `norm`.

    Bu et al. 2023, "Automatic clipping: differentially private deep learning made easier and stronger" (AUTO-S). With
    it the norm only scales the learning rate.
    """

    UNCHANGING = True
    GRADIENT = "is multiplied by {norm} / (its length + {gamma}), which makes it shorter than {norm}"
    UNIT = "{norm}"
    CELL = "{norm}, automatic with gamma {gamma}"
    kind: Literal["automatic"] = "automatic"
    norm: ClipNorm = 1.0
    gamma: Annotated[float, Field(ge=1e-8, le=1e30)] = 0.01

    @model_validator(mode="after")
    def _factors_stay_in_range(self) -> AutomaticClipping:
        if not self.norm / self.gamma <= 1e30:
            raise ValueError(f"norm / gamma must be at most 1e30, got {self.norm / self.gamma:g}")
        return self

    @property
    def first_norm(self) -> float:
        return self.norm

    def norm_at(self, step: int) -> float:
        return self.norm

    def at(self, step: int, norm: float | None, multiplier: float) -> StepClip:
        return StepClip(self.norm, gamma=self.gamma)
