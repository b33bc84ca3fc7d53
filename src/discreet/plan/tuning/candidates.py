"""The candidates of a search for settings: a public grid, with one run of the same plan for each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Sized
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from discreet.core import checks
from discreet.core.errors import InputError, kind_of
from discreet.plan.clip_rules import FlatClipping
from discreet.plan.fixed import FixedPlan, P
from discreet.plan.pydantic_base import Frozen

CLIP_NORM = "clip_norm"
"""The only setting that belongs to the plan. Noise is relative to it, so varying it costs nothing."""


def _frozen(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_frozen(one) for one in value)
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"a value of a setting must be a number, text or a list of these, not {value!r:.80}")
    return value


class Setting(Frozen):
    """A setting by name, and the values that it may have."""

    name: Annotated[str, Field(min_length=1)]
    values: Annotated[tuple[Any, ...], Field(min_length=1), BeforeValidator(_frozen)]


Grid = Annotated[tuple[Setting, ...], Field(min_length=1)]


def grid_of(values: Mapping[str, Sequence[Any]]) -> tuple[Setting, ...]:
    """A grid from lists of values by name."""
    if not isinstance(values, Mapping):
        raise InputError(f"the grid of a search is a mapping from names to lists of values, not {kind_of(values)}")
    for name, each in values.items():
        if not isinstance(each, Sized):
            raise InputError(f"the grid of a search: {name} needs a list of values, not {kind_of(each)}")
    if not values or any(isinstance(each, str) or len(each) < 1 for each in values.values()):
        raise InputError("the grid of a search needs at least one setting, and each a list of at least one value")
    return tuple(Setting(name=name, values=tuple(each)) for name, each in values.items())


class Candidates(Frozen):
    """Common fields of all kinds of search: settings of runs that have the same plan, and so the same price.

    `initial_states`: digests of the candidates' public initial states, in order; set when the search is assembled.
    """

    THEOREM: ClassVar[str] = ""
    """Name of the theorem in the claim of a search; empty where it is that of the dearest part."""

    grid: Grid
    initial_states: tuple[str, ...] = ()

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """All combinations of the grid, in order."""
        names = [setting.name for setting in self.grid]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(s.values for s in self.grid))]

    def check(self, plan: FixedPlan) -> None:
        """Refuse what no theorem here covers, and settings that are not what they seem."""
        names = [setting.name for setting in self.grid]
        if len(set(names)) < len(names):
            raise InputError(f"a setting is in the grid twice: {', '.join(names)}")
        if plan.odometer is not None:
            raise InputError("an odometer reads one run, and a search releases one of several; leave it out")
        if plan.before:
            raise InputError("a search cannot begin with queries of its own (before); answer them in a run by itself")
        norms = next((setting.values for setting in self.grid if setting.name == CLIP_NORM), ())
        if norms and not isinstance(plan.clipping, FlatClipping):
            raise InputError(f"clip_norm is a setting of flat clipping, and the plan clips {plan.clipping.kind}")
        for norm in norms:
            checks.positive(CLIP_NORM, norm)

    def one_trial(self, plan: P, settings: Mapping[str, Any]) -> P:
        """The plan of a single run with these settings."""
        alone = plan.model_copy(update={"search": None})
        if CLIP_NORM not in settings:
            return alone
        return alone.model_copy(update={"clipping": FlatClipping(norm=settings[CLIP_NORM])})
