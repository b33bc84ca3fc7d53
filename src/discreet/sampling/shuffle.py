"""Shuffled epochs: a new random order each epoch, cut into disjoint batches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.core.array_types import IntArray
from discreet.core.events import Epoch, Event
from discreet.randomness import Purpose, Stream
from discreet.sampling.fixed_size import check_population, check_sizes
from discreet.sampling.uniform import order


@dataclass(frozen=True, slots=True)
class ShuffleSampler:
    """Every unit once an epoch, in batches of `batch`; the last batch of an epoch may be smaller.

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
        check_population("a shuffled epoch", self.population, size)
        shuffled = order(size, stream.substream(Purpose.SAMPLING, first))
        return tuple(np.sort(shuffled[i : i + self.batch]) for i in range(0, size, self.batch))
