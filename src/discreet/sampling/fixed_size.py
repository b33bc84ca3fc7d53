"""Sampling without replacement: every batch has the same size."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event, FixedSize
from discreet.sampling.options import Draws, Options, whole_option
from discreet.sampling.record import PublicSize, whole
from discreet.sampling.sampler import Sampler, address

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class FixedSizeSampler:
    """Draws `batch` of exactly `population` units uniformly without replacement, independently at every step."""

    population: int
    batch: int
    period: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_sizes(self)

    def event(self, inner: Event) -> FixedSize:
        """Return the event of releasing `inner` on one draw."""
        return FixedSize(self.population, self.batch, inner)

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The units that take part in step `first`; see `Sampler.batches`."""
        from discreet.sampling.uniform import subset

        check_population("sampling without replacement", self.population, size)
        return (subset(size, self.batch, address(stream, first)),)


class FixedSizeSampling(PublicSize):
    """`batch` different units, drawn anew at every step; the size of the data set is public."""

    ADJACENCIES = (Adjacency.REPLACE_ONE,)
    EVENT = FixedSize
    SENTENCE = "In each step {batch} of the {population} {many} are drawn at random."
    WHO = "{batch} of {population} {many}"
    OPTION = "fixed"
    kind: Literal["fixed_size"] = "fixed_size"

    def sampler(self, population: float) -> Sampler:
        return FixedSizeSampler(whole(population), self.batch)

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--batch and --population, or --rate."""
        if given.rate is not None:
            share = Fraction(repr(given.share()))
            return Draws(given.rate, FixedSizeSampler(share.denominator, share.numerator).event)
        if given.batch is None or given.population is None:
            raise InputError("--sampling fixed needs --batch and --population, or --rate")
        size, total = whole_option("--batch", given.batch), whole_option("--population", given.population)
        if size > total:
            raise InputError(f"--batch {size} must not exceed --population {total}")
        return Draws(size / total, FixedSizeSampler(total, size).event)


def check_sizes(sampler: object) -> None:
    """Check the fields `population` and `batch` of a new sampler; `InputError` unless 1 <= batch <= population."""
    for name in ("population", "batch"):
        object.__setattr__(sampler, name, checks.count(name, getattr(sampler, name)))
    batch, population = getattr(sampler, "batch"), getattr(sampler, "population")  # noqa: B009
    if batch > population:
        raise InputError(f"batch ({batch}) must not exceed the population ({population})")


def check_population(what: str, population: int, size: int) -> None:
    """`InputError` unless the data has the declared size, which is public and which the theorem assumes."""
    if size != population:
        raise InputError(f"{what} was declared for exactly {population} units, but the data has {size}")
