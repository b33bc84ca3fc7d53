"""How a plan says that batches are drawn: one frozen record for each sampler, as it stands in plan.yaml."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen
from discreet.sampling import (
    ROOM,
    AllocationSampler,
    EveryoneSampler,
    FixedSizeSampler,
    PoissonSampler,
    Sampler,
    ShuffleSampler,
    TruncatedPoissonSampler,
    largest_batch,
)

Rate = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Draw:
    """What draws the batches of a step, the public divisor of its noisy sum, and how large a batch can get."""

    sampler: Sampler
    divisor: float
    largest_batch: int


class _Sampling(Frozen):
    """What the kinds share: here that of kinds under which the size of the data set is private."""

    ADJACENCIES: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
    """Under which adjacencies a theorem covers the kind."""
    OVERFLOWS: ClassVar[bool] = True
    """Whether a batch may exceed `largest_batch`, with a probability of at most `OVERFLOW`."""
    SIZE_IS_PUBLIC: ClassVar[bool] = False
    """Whether the number of units must be known exactly."""

    def sampler(self, population: float) -> Sampler:
        """The sampler whose draws have exactly the law that its events name."""
        raise NotImplementedError

    def expected_batch(self, population: float) -> float:
        """The public divisor of the noisy sum."""
        raise NotImplementedError

    def largest_batch(self, population: float) -> int:
        """A public bound on the size of a batch."""
        return largest_batch(self.expected_batch(population) / population, population)

    def epoch(self, population: float) -> float:
        """Steps of an epoch: those of a period that sees every unit, or population / expected batch."""
        period = self.sampler(population).period
        return period if period > 1 else population / self.expected_batch(population)

    def draw(self, population: float) -> Draw:
        """The three together."""
        return Draw(self.sampler(population), self.expected_batch(population), self.largest_batch(population))

    def sizes(self, population: float) -> tuple[int, int]:
        """The least and the largest number of rows that the data may have."""
        return 1, int(ROOM * population)


class PoissonSampling(_Sampling):
    """Each unit is in each batch independently with probability `rate`."""

    kind: Literal["poisson"] = "poisson"
    rate: Rate

    def sampler(self, population: float) -> Sampler:
        return PoissonSampler(self.rate)

    def expected_batch(self, population: float) -> float:
        return self.rate * population


class TruncatedPoissonSampling(_Sampling):
    """The same, but of a batch beyond `capacity` a random subset of that size stays."""

    OVERFLOWS = False
    kind: Literal["truncated_poisson"] = "truncated_poisson"
    rate: Rate
    capacity: Count

    def sampler(self, population: float) -> Sampler:
        return TruncatedPoissonSampler(self.rate, self.capacity, self.sizes(population)[1])

    def expected_batch(self, population: float) -> float:
        return self.rate * population

    def largest_batch(self, population: float) -> int:
        return self.capacity


class _PublicSize(_Sampling):
    """What the kinds share under which the size of the data set is public and batches have a fixed size."""

    OVERFLOWS = False
    SIZE_IS_PUBLIC = True
    batch: Count

    def expected_batch(self, population: float) -> float:
        return float(self.batch)

    def largest_batch(self, population: float) -> int:
        return self.batch

    def sizes(self, population: float) -> tuple[int, int]:
        return _whole(population), _whole(population)


class FixedSizeSampling(_PublicSize):
    """`batch` different units, drawn anew at every step; the size of the data set is public."""

    ADJACENCIES = (Adjacency.REPLACE_ONE,)
    kind: Literal["fixed_size"] = "fixed_size"

    def sampler(self, population: float) -> Sampler:
        return FixedSizeSampler(_whole(population), self.batch)


class ShuffleSampling(_PublicSize):
    """Every unit once an epoch, in batches of `batch`; the size of the data set is public."""

    ADJACENCIES = (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    kind: Literal["shuffle"] = "shuffle"

    def sampler(self, population: float) -> Sampler:
        return ShuffleSampler(_whole(population), self.batch)


class AllocationSampling(_Sampling):
    """Each unit is in `chosen` of every `period` steps, at random places, independently of the others."""

    ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    kind: Literal["allocation"] = "allocation"
    period: Count
    chosen: Count = 1

    def sampler(self, population: float) -> Sampler:
        return AllocationSampler(self.period, self.chosen)

    def expected_batch(self, population: float) -> float:
        return self.chosen / self.period * population


class NoSampling(_Sampling):
    """Every unit is in every step."""

    ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    OVERFLOWS = False
    kind: Literal["none"] = "none"

    def sampler(self, population: float) -> Sampler:
        return EveryoneSampler()

    def expected_batch(self, population: float) -> float:
        return population

    def largest_batch(self, population: float) -> int:
        return self.sizes(population)[1]


Sampling = Annotated[
    PoissonSampling | TruncatedPoissonSampling | FixedSizeSampling | ShuffleSampling | AllocationSampling | NoSampling,
    Field(discriminator="kind"),
]


def _whole(population: float) -> int:
    if population != math.floor(population):
        raise InputError(f"population must be the public number of rows here, a whole number, got {population!r}")
    return int(population)
