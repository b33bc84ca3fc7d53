"""No sampling: every unit takes part in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.sampling.options import Draws, Options
from discreet.sampling.record import SamplingRecord
from discreet.sampling.sampler import Sampler, address

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class EveryoneSampler:
    """Full-batch steps: every unit is in every batch."""

    period: ClassVar[int] = 1

    def event(self, inner: Event) -> Event:
        """Return `inner` itself: without sampling there is no amplification."""
        return inner

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """All units; see `Sampler.batches`. The address is taken although no random bits are needed."""
        import numpy as np

        address(stream, first)
        return (np.arange(checks.count("size", size, least=0), dtype=np.int64),)


class NoSampling(SamplingRecord):
    """Every unit is in every step."""

    ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    INDEPENDENT = True
    OVERFLOWS = False
    SENTENCE = "Every {one} takes part in each step."
    WHO = "all {many}"
    OPTION = "none"
    kind: Literal["none"] = "none"

    def sampler(self, population: float) -> Sampler:
        return EveryoneSampler()

    def expected_batch(self, population: float) -> float:
        return population

    def largest_batch(self, population: float) -> int:
        return self.sizes(population)[1]

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """No option is taken."""
        if given.rate is not None or given.batch is not None:
            raise InputError("--sampling none takes neither --rate nor --batch: every unit is in every step")
        return Draws(1.0, EveryoneSampler().event)
