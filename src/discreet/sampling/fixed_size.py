"""Sampling without replacement: every batch has the same size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.core.events import Event, FixedSize
from discreet.randomness import Purpose, Stream
from discreet.sampling.uniform import subset


@dataclass(frozen=True, slots=True)
class FixedSizeSampler:
    """Draws `batch` of exactly `population` units, uniformly without replacement, anew at every step."""

    population: int
    batch: int
    period: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_sizes(self)

    def event(self, inner: Event) -> FixedSize:
        """Return the event of releasing `inner` on one draw."""
        return FixedSize(self.population, self.batch, inner)

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """Who takes part in step `first`; see `Sampler.batches`."""
        check_population("sampling without replacement", self.population, size)
        return (subset(size, self.batch, stream.substream(Purpose.SAMPLING, first)),)


def check_sizes(sampler: object) -> None:
    """Check the fields `population` and `batch` of a new sampler."""
    for name in ("population", "batch"):
        object.__setattr__(sampler, name, checks.count(name, getattr(sampler, name)))
    batch, population = getattr(sampler, "batch"), getattr(sampler, "population")  # noqa: B009
    if batch > population:
        raise InputError(f"batch ({batch}) must not exceed the population ({population})")


def check_population(what: str, population: int, size: int) -> None:
    """Refuse data of another size: here the size is public, and the theorem is about exactly it."""
    if size != population:
        raise InputError(f"{what} was declared for exactly {population} units, but the data has {size}")
