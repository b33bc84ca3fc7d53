"""Random allocation (balls and bins): every unit takes part in the same number of steps, chosen at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Allocation, Event
from discreet.sampling.options import Draws, Options
from discreet.sampling.record import Count, SamplingRecord
from discreet.sampling.sampler import Sampler, address, one_release

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class AllocationSampler:
    """Each unit picks `chosen` of the `steps` steps of a period, uniformly and independently of the other units.

    Batches differ in size, as under Poisson sampling, but no unit is left out of a period or drawn too often.
    `InputError` unless 1 <= chosen <= steps.
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
        """The steps among which a unit picks."""
        return self.steps

    def event(self, inner: Event) -> Allocation:
        """Return the event of a period, `inner` as in `Epoch.event`; `InputError` unless its steps release the same."""
        refusal = (
            "allocation needs the same noise at every step of a period; here it changes inside a period of "
            f"{self.steps} steps, so change it between periods"
        )
        return Allocation(self.steps, self.chosen, one_release(inner, self.steps, refusal))

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The batches of the period that begins at step `first`; see `Sampler.batches`."""
        import numpy as np

        from discreet.sampling.uniform import subsets

        population = checks.count("size", size, least=0)
        picked = subsets(population, self.steps, self.chosen, address(stream, first))
        by_step = np.argsort(picked.ravel(), kind="stable")
        sizes = np.bincount(picked.ravel(), minlength=self.steps)
        return tuple(np.split(by_step // self.chosen, np.cumsum(sizes)[:-1]))


class AllocationSampling(SamplingRecord):
    """Each unit is in `chosen` of every `period` steps, at random places, independently of the others."""

    ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    INDEPENDENT = True
    EVENT = Allocation
    SENTENCE = "Of every {period} steps each {one} takes part in {chosen}, chosen at random."
    WHO = "each {one} in {chosen} of {steps} steps"
    OPTION = "allocation"
    TAKES: ClassVar[Mapping[str, str]] = {
        "per_epoch": "steps of a period",
        "chosen": "steps of a period that each unit is in [1]",
    }
    kind: Literal["allocation"] = "allocation"
    period: Count
    chosen: Count = 1

    def sampler(self, population: float) -> Sampler:
        return AllocationSampler(self.period, self.chosen)

    def expected_batch(self, population: float) -> float:
        return self.chosen / self.period * population

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--per-epoch (steps of a period), or --batch and --population, or --rate; --chosen."""
        chosen = checks.count("--chosen", 1 if given.chosen is None else given.chosen)
        period = given.period(chosen)
        if chosen > period:
            raise InputError(f"--chosen {chosen} must not exceed the {period} steps of a period")
        return Draws(chosen / period, AllocationSampler(period, chosen).event, period)
