"""The clipping record of a plan: any registered clip rule (`clip_rules`), told apart by `kind`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from discreet.accounting.schedules import Schedule
from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import note_read, plug_in
from discreet.plan.clip_rules import CLIP_RULES, ClipRule, FlatClipping
from discreet.plan.pydantic_base import explain

AnyClipping = ClipRule
"""A record of any registered clip rule."""


def _from_shortcut(value: object) -> object:
    """`{"per_layer": C}` and `{"groups": {pattern: C}}`, for what they are short for."""
    if isinstance(value, Mapping) and len(value) == 1:
        kind, given = next(iter(value.items()))
        if kind in CLIP_RULES and (field := CLIP_RULES[kind].SHORT_FOR):
            return {"kind": kind, field: given}
    return value


if TYPE_CHECKING:
    Clipping = ClipRule
else:
    plug_in("samplers")  # both before either is read: a package may register both in one file
    plug_in("clip_rules")
    Clipping = Annotated[
        Union[tuple(CLIP_RULES.values())],  # noqa: UP007
        Field(discriminator="kind"),
        BeforeValidator(_from_shortcut),
    ]
    note_read("clip_rules")

_READER: TypeAdapter[AnyClipping] = TypeAdapter(Clipping)


def as_clipping(clip_norm: object, clipping: object, steps: int, epoch: float) -> AnyClipping:
    """The clipping of a plan from either of two arguments.

    `clip_norm`: a number, a list of (norm, steps), or a schedule per epoch (of `epoch` steps) or per step. `clipping`:
    a record of a rule, or a mapping with the same keys.
    """
    if (clip_norm is None) == (clipping is None):
        raise InputError("plan: give either clip_norm or clipping")
    if isinstance(clip_norm, Schedule):
        clip_norm = clip_norm.phases(steps, 1 / epoch)
    value: Any = clipping
    if isinstance(clip_norm, Sequence) and not isinstance(clip_norm, str):
        if any(not isinstance(phase, Sequence) or len(phase) != 2 for phase in clip_norm):
            raise InputError("plan: clip_norm must be a number or a list of (norm, steps)")
        value = {"kind": "scheduled", "phases": [{"norm": norm, "steps": count} for norm, count in clip_norm]}
    elif clip_norm is not None:
        if isinstance(clip_norm, float | int) and not 1e-30 <= clip_norm <= 1e30:
            raise InputError(f"plan: clip_norm must be from 1e-30 to 1e30, got {clip_norm:g}")
        value = {"kind": "flat", "norm": clip_norm}
    if isinstance(value, str):
        raise InputError(f'plan: clipping is a mapping, as {{"kind": "per_layer", "norm": 1.0}}, got {value!r}')
    try:
        return _READER.validate_python(value)
    except ValidationError as error:
        kind = CLIP_RULES.get(str(next(iter(error.errors()[0]["loc"]), None)), FlatClipping)
        said = explain(error, kind)
        raise InputError(f"plan: clipping{': ' if said.startswith('unknown') else '.'}{said}") from None
