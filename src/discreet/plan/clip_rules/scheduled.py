"""Scheduled clipping: a clip norm for each step, fixed beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from discreet.core.errors import InputError
from discreet.plan.clip_rules.base import ClipNorm, ClipRule, StepClip
from discreet.plan.pydantic_base import Frozen
from discreet.sampling.record import Count


class NormPhase(Frozen):
    """`steps` consecutive steps with one clip norm."""

    norm: ClipNorm
    steps: Count


class ScheduledClipping(ClipRule):
    """Flat clipping to a norm that was fixed for each step beforehand; the noise follows the norm."""

    GRADIENT = "is scaled down to a length that was fixed for each step beforehand ({least} to {most})"
    UNIT = "the length of the step"
    CELL = "{least} to {most}, {count} phases"
    kind: Literal["scheduled"] = "scheduled"
    phases: Annotated[tuple[NormPhase, ...], Field(min_length=1)]

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        covered = sum(phase.steps for phase in self.phases)
        if covered != steps:
            raise InputError(f"the phases of the clip norm cover {covered} steps, but the plan has {steps}")

    def norm_at(self, step: int) -> float:
        """The clip norm of a charged step, counted from 0."""
        for phase in self.phases:
            if step < phase.steps:
                return phase.norm
            step -= phase.steps
        raise InputError(f"the phases of the clip norm end {step + 1} steps before this one")

    @property
    def first_norm(self) -> float:
        return self.phases[0].norm

    def tried(self) -> tuple[StepClip, ...]:
        return (StepClip(min(1.0, *(phase.norm for phase in self.phases))),)

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        """A list of [clip norm, steps]."""
        return {"sensitivity": [[phase.norm, phase.steps] for phase in self.phases]}

    def figures(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        norms = [phase.norm for phase in self.phases]
        return {"least": min(norms), "most": max(norms), "count": len(norms)}
