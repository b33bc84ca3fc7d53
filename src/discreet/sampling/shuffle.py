"""Shuffled epochs: a new random order each epoch, cut into disjoint batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core.adjacency import Adjacency
from discreet.core.events import Epoch, Event
from discreet.sampling.fixed_size import check_population, check_sizes
from discreet.sampling.options import Draws, Options
from discreet.sampling.record import PublicSize, whole
from discreet.sampling.sampler import Sampler, address

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class ShuffleSampler:
    """Takes every unit once in each epoch, in batches of `batch`; the last batch of an epoch may be smaller.

    The period is the epoch: ceil(population / batch) steps, drawn together and accounted for together.
    """

    population: int
    batch: int

    def __post_init__(self) -> None:
        check_sizes(self)

    @property
    def period(self) -> int:
        """Batches in an epoch."""
        return math.ceil(self.population / self.batch)

    def event(self, inner: Event) -> Epoch:
        """Return the event of an epoch: `inner` is what its batches release together."""
        return Epoch(inner)

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The batches of the epoch that begins at step `first`; see `Sampler.batches`."""
        import numpy as np

        from discreet.sampling.uniform import order

        check_population("a shuffled epoch", self.population, size)
        shuffled = order(size, address(stream, first))
        return tuple(np.sort(shuffled[i : i + self.batch]) for i in range(0, size, self.batch))


class ShuffleSampling(PublicSize):
    """Every unit once an epoch, in batches of `batch`; the size of the data set is public."""

    ADJACENCIES = (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    EVENT = Epoch
    SENTENCE = "In each epoch the {population} {many} are shuffled and cut into batches of {batch}, one for each step."
    WHO = "all {many}, shuffled, in {steps} batches"
    OPTION = "shuffle"
    TAKES: ClassVar[Mapping[str, str]] = {"per_epoch": "batches of an epoch"}
    kind: Literal["shuffle"] = "shuffle"

    def sampler(self, population: float) -> Sampler:
        return ShuffleSampler(whole(population), self.batch)

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--per-epoch (batches), or --batch and --population, or --rate."""
        period = given.period()
        return Draws(1 / period, Epoch, period)
