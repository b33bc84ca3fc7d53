"""The sampling record of a plan: one of any registered sampler, told apart by `kind`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from discreet.core.imports.plug_ins import note_read, plug_in
from discreet.sampling import SAMPLERS, SamplingRecord
from discreet.sampling.record import Count, Draw, Positive, Rate

__all__ = ["Count", "Draw", "Positive", "Rate", "Sampling"]

if TYPE_CHECKING:
    Sampling = SamplingRecord
    """A record of any registered sampler."""
else:
    plug_in("samplers")  # both before either is read: a package may register both in one file
    plug_in("clip_rules")
    Sampling = Annotated[Union[tuple(SAMPLERS.values())], Field(discriminator="kind")]  # noqa: UP007
    note_read("samplers")
