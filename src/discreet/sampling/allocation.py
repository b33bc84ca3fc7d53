"""Random allocation (balls and bins): every unit takes part in the same number of steps, at random places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.core.events import Allocation, Epoch, Event
from discreet.core.events import batches as batches_in
from discreet.randomness import Purpose, Stream
from discreet.sampling.uniform import subsets


@dataclass(frozen=True, slots=True)
class AllocationSampler:
    """Each unit picks `chosen` of the `steps` steps of a period, uniformly and independently of the other units.

    Batches differ in size, like those of Poisson sampling, but nobody is left out of a period or drawn too often.
    """

    steps: int
    chosen: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checks.count("steps", self.steps))
        object.__setattr__(self, "chosen", checks.count("chosen", self.chosen))
        if self.chosen > self.steps:
            raise InputError(f"chosen ({self.chosen}) must not exceed steps ({self.steps})")

    @property
    def period(self) -> int:
        """All steps among which a unit picks."""
        return self.steps

    def event(self, inner: Event) -> Allocation:
        """Return the event of a period; its steps must all release the same. `inner` is as in `Epoch.event`."""
        released = batches_in(Epoch(inner))
        if len({event for event, _ in released}) != 1 or sum(count for _, count in released) != self.steps:
            raise InputError("allocation needs the same noise at every step of a period; change it between periods")
        return Allocation(self.steps, self.chosen, released[0][0])

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The batches of the period that begins at step `first`; see `Sampler.batches`."""
        population = checks.count("size", size, least=0)
        picked = subsets(population, self.steps, self.chosen, stream.substream(Purpose.SAMPLING, first))
        by_step = np.argsort(picked.ravel(), kind="stable")
        sizes = np.bincount(picked.ravel(), minlength=self.steps)
        return tuple(np.split(by_step // self.chosen, np.cumsum(sizes)[:-1]))
