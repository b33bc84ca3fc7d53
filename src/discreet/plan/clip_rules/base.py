"""The base of clip rules. A rule is one file: its record in a plan, the clip of a step, its sensitivity, its sentences.

The noise multiplier of an event is noise std / sensitivity, whatever the rule. So a rule changes what is released,
never its price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import refuse_late
from discreet.plan.pydantic_base import Frozen

ClipNorm = Annotated[float, Field(ge=1e-30, le=1e30)]


class StepClip(NamedTuple):
    """The clip of one step; the fields are those of `clipping.Clip`."""

    norm: float
    gamma: float = 0.0
    bit: float = 0.0


class ClipRule(Frozen):
    """A clip rule in a plan.

    The sentences of a rule may name its fields, and the keys of `figures`, in braces.
    """

    GRADIENT: ClassVar[str]
    """The words that follow "Each row's gradient" in a sentence."""
    UNIT: ClassVar[str]
    """The words that follow "the noise multiplier times"."""
    CELL: ClassVar[str]
    """The rule in a cell of a table."""
    UNCHANGING: ClassVar[bool] = False
    """Whether every step clips alike, whatever was released before it."""
    FOLLOWS: ClassVar[bool] = False
    """Whether the norm follows the bits that steps release, by `after`."""
    BOX: ClassVar[bool] = False
    """Whether each number is clipped by itself."""
    SHORT_FOR: ClassVar[str | None] = None
    """The field that `{kind: value}` is short for."""
    if TYPE_CHECKING:
        kind: str

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        """Refuse a plan of `steps` steps with these noise multipliers if this rule cannot clip it."""

    @property
    def first_norm(self) -> float | None:
        """The clip norm of the first step; None where there is no single norm for all parameters."""
        return None

    @property
    def geometry(self) -> str | None:
        """Name of the source of the public scales that gradients are divided by; None if there are no scales."""
        return None

    def norm_at(self, step: int) -> float | None:
        """The clip norm of a charged step (counted from 0); None if it follows from the model or the run."""
        return None

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """Groups of parameters that are clipped separately, each with its norm; empty if all are clipped together."""
        return {}

    def at(self, step: int, norm: float | None, multiplier: float) -> StepClip:
        """The clip of a step whose event has this noise multiplier. `norm`: the present norm of an adaptive rule."""
        found = self.norm_at(step)
        if found is None:
            raise InputError(f"{self.kind} clipping has no norm for all parameters")
        return StepClip(found)

    def tried(self) -> Sequence[StepClip]:
        """Clips that clip much, for comparing engines with each other; empty: the clip of the first step is used."""
        return ()

    def after(self, norm: float, bits: float, expected_batch: float) -> float:
        """The norm of the next step, from the norm of a step and the released sum of its bits."""
        return norm

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        """The sensitivity as a certificate states it, with the facts that it follows from. `sizes`: how many numbers
        each parameter has."""
        return {"sensitivity": self.first_norm}

    def figures(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Further figures that sentences may name. `stated`: what the certificate says of clipping."""
        return {"sensitivity": stated["sensitivity"]}


class InScales(ClipRule):
    """Clip rules in public scales, one scale for each number of the parameters.

    `scales` names their source: `fixed` for constants, or a method that computes them from releases. The plan does not
    hold the scales.
    """

    scales: str = "fixed"

    @property
    def geometry(self) -> str:
        return self.scales


CLIP_RULES: dict[str, type[ClipRule]] = {}
"""The records by their kinds, in the order of the schema."""


def register(rule: type[ClipRule]) -> type[ClipRule]:
    """Put a rule into the table. Call it before `Plan` is imported, which reads the table then."""
    kind = rule.model_fields["kind"].default
    if kind in CLIP_RULES:
        raise InputError(f"the clip rule {kind!r} is {CLIP_RULES[kind].__name__} already; take another kind")
    refuse_late("clip_rules", kind)
    CLIP_RULES[kind] = rule
    return rule
