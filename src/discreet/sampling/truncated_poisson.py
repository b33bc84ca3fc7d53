"""Poisson sampling with a largest batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import Event, TruncatedPoisson
from discreet.sampling.options import Draws, Options, whole_option
from discreet.sampling.poisson import PoissonSampler
from discreet.sampling.record import Count, Rate, SamplingRecord
from discreet.sampling.sampler import Sampler, address

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampler:
    """Poisson sampling whose batches never exceed `capacity`: a larger draw is cut to a random subset of that size.

    Meant for hardware that needs batches of one shape. The data may have at most `population` units, a public number
    that bounds the probability of an overflow.
    """

    rate: float
    capacity: int
    population: int
    period: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", PoissonSampler(self.rate).rate)
        object.__setattr__(self, "capacity", checks.count("capacity", self.capacity))
        object.__setattr__(self, "population", checks.count("population", self.population))

    def event(self, inner: Event) -> TruncatedPoisson:
        """Return the event of releasing `inner` on one draw."""
        return TruncatedPoisson(self.rate, self.capacity, self.population, inner)

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The units that take part in step `first`; see `Sampler.batches`."""
        import numpy as np

        from discreet.sampling.bernoulli import drawn_at
        from discreet.sampling.uniform import order

        if not checks.count("size", size, least=0) <= self.population:
            raise InputError(f"truncated Poisson sampling is made for at most {self.population} units, got {size}")
        substream = address(stream, first)
        drawn = drawn_at(self.rate, size, substream)
        if drawn.size > self.capacity:
            drawn = np.sort(drawn[order(drawn.size, substream)[: self.capacity]])
        return (drawn,)


class TruncatedPoissonSampling(SamplingRecord):
    """Poisson sampling, but of a batch with more than `capacity` units a random subset of that size stays."""

    OVERFLOWS = False
    EVENT = TruncatedPoisson
    SENTENCE = (
        "In each step every {one} is drawn independently with probability {rate}; if more than {capacity} are drawn, a "
        "random {capacity} of them stay."
    )
    WHO = "each {one} with probability {rate}, at most {capacity}"
    OPTION = "truncated"
    TAKES: ClassVar[Mapping[str, str]] = {"capacity": "most units in a batch"}
    kind: Literal["truncated_poisson"] = "truncated_poisson"
    rate: Rate
    capacity: Count

    def sampler(self, population: float) -> Sampler:
        return TruncatedPoissonSampler(self.rate, self.capacity, self.sizes(population)[1])

    def expected_batch(self, population: float) -> float:
        return self.rate * population

    def largest_batch(self, population: float) -> int:
        return self.capacity

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--rate, or --batch and --population; --capacity; --population, the most units that a data set may have."""
        share = given.share()
        if given.capacity is None or given.population is None:
            raise InputError(
                "--sampling truncated needs --capacity, and --population as the most units that a data set may have"
            )
        return Draws(
            share, partial(TruncatedPoisson, share, given.capacity, whole_option("--population", given.population))
        )
