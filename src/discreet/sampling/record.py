"""What a plan says of how batches are drawn: the base of the records, one for each sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.sampling.largest import ROOM, largest_batch
from discreet.sampling.options import Draws, Options
from discreet.sampling.sampler import Sampler

Rate = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class Frozen(BaseModel):
    """Base of everything read from files: immutable, and refusing fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


@dataclass(frozen=True, slots=True)
class Draw:
    """What draws the batches of a step, the public divisor of its noisy sum, and how large a batch can get."""

    sampler: Sampler
    divisor: float
    largest_batch: int


class SamplingRecord(Frozen):
    """What the kinds share: here that of kinds under which the size of the data set is private.

    Beside the fields that stand in plan.yaml a kind has its words, and what the command line takes for it.
    """

    ADJACENCIES: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
    """Under which adjacencies a theorem covers the kind; the first is what the command line takes for granted."""
    OVERFLOWS: ClassVar[bool] = True
    """Whether a batch may exceed `largest_batch`, with a probability of at most `OVERFLOW`."""
    SIZE_IS_PUBLIC: ClassVar[bool] = False
    """Whether the number of units must be known exactly."""
    EVENT: ClassVar[type | None] = None
    """The event of a draw; None if it is that of the step itself."""
    SENTENCE: ClassVar[str]
    """One sentence for pages. `{one}`, `{many}`: the unit; `{population}`; and the fields by their names."""
    WHO: ClassVar[str]
    """A few words about the draw of an event, with its fields by their names, and `{steps}` that it covers."""
    OPTION: ClassVar[str]
    """The kind in `--sampling`."""
    TAKES: ClassVar[Mapping[str, str]] = {}
    """Options that other kinds do not take, and what each says."""
    if TYPE_CHECKING:
        kind: str

    def sampler(self, population: float) -> Sampler:
        """The sampler whose draws have exactly the law that its events name."""
        raise NotImplementedError

    def expected_batch(self, population: float) -> float:
        """The public divisor of the noisy sum."""
        raise NotImplementedError

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """The draws that the options of a command describe; what is missing is an `InputError`."""
        raise InputError(f"--sampling {cls.OPTION} is for plans; write it into plan.yaml")

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


class PublicSize(SamplingRecord):
    """What the kinds share under which the size of the data set is public and batches have a fixed size."""

    OVERFLOWS = False
    SIZE_IS_PUBLIC = True
    batch: Count

    def expected_batch(self, population: float) -> float:
        return float(self.batch)

    def largest_batch(self, population: float) -> int:
        return self.batch

    def sizes(self, population: float) -> tuple[int, int]:
        return whole(population), whole(population)


SAMPLERS: dict[str, type[SamplingRecord]] = {}
"""The records by their kinds, in the order of the schema."""


def register(record: type[SamplingRecord]) -> type[SamplingRecord]:
    """Put a record into the table, before `Plan` is first used, which reads what is there then."""
    kind = record.model_fields["kind"].default
    if kind in SAMPLERS:
        raise InputError(f"the sampler {kind!r} is {SAMPLERS[kind].__name__} already; take another kind")
    SAMPLERS[kind] = record
    return record


def whole(population: float) -> int:
    """A public number of rows, as a whole number."""
    if population != math.floor(population):
        raise InputError(f"population must be the public number of rows here, a whole number, got {population!r}")
    return int(population)
