"""Poisson sampling: every unit takes part in every step independently, with the same probability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import Event, Poisson
from discreet.sampling.everyone import EveryoneSampler
from discreet.sampling.options import Draws, Options
from discreet.sampling.record import Rate, SamplingRecord
from discreet.sampling.sampler import Sampler, address

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Includes each unit with probability `rate`, exactly: 64 random bits per unit are compared with a threshold.

    The probability is exactly floor(rate 2^64) / 2^64. For a rate of 2^-11 or more this is the float `rate` itself.
    For smaller rates it is lower by less than 2^-64, which the event at `rate` covers, because a guarantee never gets
    worse when the rate falls. `InputError` unless `rate` is in [2^-64, 1]: below 2^-64 no unit would ever be drawn.
    """

    rate: float
    period: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checks.rate("rate", self.rate))
        if self.rate < 2**-64:
            raise InputError(f"rate must be at least 2^-64 (below, nobody is ever drawn), got {self.rate!r}")

    def event(self, inner: Event) -> Poisson:
        """Return the event of releasing `inner` on one draw."""
        return Poisson(self.rate, inner)

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The units that take part in step `first`, all of them at rate 1; see `Sampler.batches`."""
        from discreet.sampling.bernoulli import drawn_at

        population = checks.count("size", size, least=0)
        return (drawn_at(self.rate, population, address(stream, first)),)


class PoissonSampling(SamplingRecord):
    """Each unit is in each batch independently with probability `rate`."""

    INDEPENDENT = True
    EVENT = Poisson
    SENTENCE = "In each step every {one} is drawn independently with probability {rate}."
    WHO = "each {one} with probability {rate}"
    OPTION = "poisson"
    kind: Literal["poisson"] = "poisson"
    rate: Rate

    @classmethod
    def of_batch(cls, batch: float, population: float) -> PoissonSampling:
        """Batches of `batch` expected units out of a declared population; `InputError` if they do not fit into it."""
        rate = checks.positive("batch", batch) / checks.positive("population", population)
        if rate > 1:
            raise InputError(
                f"batch must be at most the population, {population:g}, got {batch:g}: a Poisson batch is drawn from "
                "all units, each once at most"
            )
        if rate == 0:
            raise InputError(f"batch {batch:g} out of {population:g} is a rate that rounds to zero; give a larger one")
        return cls(rate=rate)

    def sampler(self, population: float) -> Sampler:
        return PoissonSampler(self.rate)

    def expected_batch(self, population: float) -> float:
        return self.rate * population

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--rate, or --batch and --population."""
        rate = given.share()
        return Draws(rate, EveryoneSampler().event if rate == 1 else partial(Poisson, rate))
