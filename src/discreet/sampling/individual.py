"""Full-batch steps in which each unit takes part as long as its own budget lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event, Individual
from discreet.sampling.options import Draws, Options
from discreet.sampling.record import Count, SamplingRecord
from discreet.sampling.sampler import Sampler, address, one_release

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class IndividualSampler:
    """All units in each of the `steps` steps of a period; the filter of the run leaves out those whose budget, of
    `full` steps at full length, is used up (`training.individual_filter`). `InputError` unless 1 <= full <= steps."""

    steps: int
    full: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checks.count("steps", self.steps))
        object.__setattr__(self, "full", checks.count("full", self.full))
        if self.full > self.steps:
            raise InputError(f"full ({self.full}) must not exceed the {self.steps} steps of a period")

    @property
    def period(self) -> int:
        """The steps that a budget is for."""
        return self.steps

    def event(self, inner: Event) -> Individual:
        """Return the event of a period, `inner` as in `Epoch.event`; `InputError` unless its steps release the same."""
        refusal = (
            f"individual budgets need the same noise at each of the {self.steps} steps of a period; "
            "change it between periods"
        )
        return Individual(self.steps, self.full, one_release(inner, self.steps, refusal))

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """All units, for every step of a period; see `Sampler.batches`."""
        import numpy as np

        address(stream, first)
        return (np.arange(checks.count("size", size, least=0), dtype=np.int64),) * self.steps


class IndividualSampling(SamplingRecord):
    """Every unit is in every step until, in a period, it has spent what `full` steps at full length cost."""

    ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    OVERFLOWS = False
    EVENT = Individual
    SENTENCE = (
        "Each {one} has a budget of its own: it takes part in the {period} steps of a period until it has spent what "
        "{full} steps at full length cost. What each {one} spent is secret."
    )
    WHO = "each {one} until its own budget was spent, in up to {steps} steps"
    OPTION = "individual"
    TAKES: ClassVar[Mapping[str, str]] = {
        "per_epoch": "steps of a period",
        "full": "steps at full length that each unit's budget is worth",
    }
    kind: Literal["individual"] = "individual"
    period: Count
    full: Count

    def sampler(self, population: float) -> Sampler:
        return IndividualSampler(self.period, self.full)

    def expected_batch(self, population: float) -> float:
        return population

    def largest_batch(self, population: float) -> int:
        return self.sizes(population)[1]

    def epoch(self, population: float) -> float:
        """One: every unit may be in every step."""
        return 1.0

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--per-epoch (steps of a period) and --full."""
        if given.rate is not None or given.batch is not None:
            raise InputError("--sampling individual takes neither --rate nor --batch: every unit may be in every step")
        if given.per_epoch is None or given.full is None:
            raise InputError("--sampling individual needs --per-epoch, the steps of a period, and --full")
        sampler = IndividualSampler(given.per_epoch, given.full)
        return Draws(1.0, sampler.event, sampler.period)
