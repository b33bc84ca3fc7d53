"""What clip rules share. A rule is a file: its record in a plan, the clip of a step, its sensitivity, its words.

The noise multiplier of an event is noise std / sensitivity, whatever the rule: a rule changes what is released, never
what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen

ClipNorm = Annotated[float, Field(ge=1e-30, le=1e30)]


class StepClip(NamedTuple):
    """What a rule says of one step; the fields are those of `clipping.Clip`."""

    norm: float
    gamma: float = 0.0
    bit: float = 0.0


class ClipRule(Frozen):
    """What the kinds share.

    Words of a rule name its fields in braces, and what `figures` adds.
    """

    GRADIENT: ClassVar[str]
    """What follows "Each row's gradient" in a sentence."""
    UNIT: ClassVar[str]
    """What follows "the noise multiplier times"."""
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
        """Refuse a plan of so many steps, with noise multipliers among these, that cannot be clipped like this."""

    @property
    def first_norm(self) -> float | None:
        """The norm that clipping starts with, where there is one for all parameters."""
        return None

    @property
    def geometry(self) -> str | None:
        """What gives the public scales that gradients are divided by; None if they are divided by none."""
        return None

    def norm_at(self, step: int) -> float | None:
        """The norm of a charged step, counted from 0; None if it follows from the model or the run."""
        return None

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """Groups of parameters that are clipped apart, each with its norm; none: all parameters together."""
        return {}

    def at(self, step: int, norm: float | None, multiplier: float) -> StepClip:
        """The clip of a step in an event with this multiplier; `norm` is where a norm that follows bits stands."""
        found = self.norm_at(step)
        if found is None:
            raise InputError(f"{self.kind} clipping has no norm for all parameters")
        return StepClip(found)

    def tried(self) -> Sequence[StepClip]:
        """Clips to hold the engines against each other with, where much is clipped; none: that of the first step."""
        return ()

    def after(self, norm: float, bits: float, expected_batch: float) -> float:
        """The norm of the next step, from that of a step and the sum of bits that it released."""
        return norm

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        """The sensitivity for a certificate, after what it follows from; `sizes`: the numbers in each parameter."""
        return {"sensitivity": self.first_norm}

    def figures(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """What words may name beside the fields; `stated` is what the certificate says of clipping."""
        return {"sensitivity": stated["sensitivity"]}


class InScales(ClipRule):
    """What the kinds share that clip in public scales, one for each number of the parameters.

    `scales` names what gives them: `fixed` for constants, or a method that computes them from releases. The plan does
    not hold them.
    """

    scales: str = "fixed"

    @property
    def geometry(self) -> str:
        return self.scales


CLIP_RULES: dict[str, type[ClipRule]] = {}
"""The records by their kinds, in the order of the schema."""


def register(rule: type[ClipRule]) -> type[ClipRule]:
    """Put a rule into the table, before `Plan` is first used, which reads what is there then."""
    kind = rule.model_fields["kind"].default
    if kind in CLIP_RULES:
        raise InputError(f"the clip rule {kind!r} is {CLIP_RULES[kind].__name__} already; take another kind")
    CLIP_RULES[kind] = rule
    return rule
