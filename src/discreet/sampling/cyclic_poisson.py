"""Cyclic Poisson sampling: parts of the data take turns, so that noise may be correlated between neighbouring steps.

Every unit is dealt to one of b parts, uniformly and independently of the others. In b successive steps each part has
its turn once; in its turn, each of its units takes part with probability `rate`. So b - 1 steps at least lie between
two steps of a unit, and a strategy with b bands spreads what it adds over steps of which no other holds anything of it.
Then a round of b steps costs what one step of Poisson sampling at `rate` does (Choquette-Choo et al. 2023,
arXiv:2306.08153, theorems 4 and 5; the argument for releases on a grid is in `mechanism.correlated`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import CyclicPoisson, Event
from discreet.sampling.options import Draws, Options
from discreet.sampling.poisson import PoissonSampler
from discreet.sampling.record import Rate, SamplingRecord
from discreet.sampling.sampler import Sampler, address, one_release

if TYPE_CHECKING:
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream

Coefficient = Annotated[int, Field(ge=1, le=2**16)]
"""Up to this, products of coefficients and sums leave room for whole numbers in float64."""


@dataclass(frozen=True, slots=True)
class CyclicPoissonSampler:
    """Each unit has its turn in one of `parts` steps of a round, the same in every round; then it takes part with
    probability `rate`, exact as in `PoissonSampler`."""

    parts: int
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", checks.count("parts", self.parts))
        object.__setattr__(self, "rate", PoissonSampler(self.rate).rate)

    @property
    def period(self) -> int:
        """The steps of a round."""
        return self.parts

    def event(self, inner: Event) -> CyclicPoisson:
        """Return the event of a round, `inner` as in `Epoch.event`; `InputError` unless its steps release the same."""
        refusal = "a round of cyclic Poisson batches needs the same noise at every step"
        return CyclicPoisson(self.parts, self.rate, one_release(inner, self.parts, refusal))

    def begin(self, first: int, size: int, stream: Stream) -> Sampler:
        """Deal the units, which takes the address (parts, first) of `stream`."""
        from discreet.randomness import Purpose
        from discreet.sampling.uniform import below

        units = checks.count("size", size, least=0)
        return Dealt(self, below(self.parts, units, stream.substream(Purpose.PARTS, first)))

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The batches of a round, for units that are dealt for it alone; see `Sampler.batches`."""
        return self.begin(first, size, stream).batches(first, size, stream)


class Dealt:
    """The sampler of one attempt, whose units are dealt: `parts_of` is the part of each unit, shape (units,)."""

    def __init__(self, law: CyclicPoissonSampler, parts_of: IntArray) -> None:
        self._law, self._parts_of = law, parts_of
        self.period, self.event = law.period, law.event

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """The batches of the round that begins at step `first`; see `Sampler.batches`."""
        from discreet.sampling.bernoulli import drawn_at

        if size != len(self._parts_of):
            raise InputError(f"{len(self._parts_of)} units were dealt to parts, not {size!r}")
        drawn = drawn_at(self._law.rate, size, address(stream, first))
        parts = self._parts_of[drawn]
        return tuple(drawn[parts == part] for part in range(self._law.parts))


class CyclicPoissonSampling(SamplingRecord):
    """Parts of the data take turns, and noise is correlated over as many steps as there are parts.

    `coefficients`: the first column of the strategy matrix, in whole numbers of any common unit; as many as parts; they
    do not rise.
    `rate`: the probability that a unit takes part when its part has its turn.
    """

    INDEPENDENT = True
    EVENT = CyclicPoisson
    SENTENCE = (
        "The {many} are dealt to {coefficients} parts at random, and the parts take turns; in its turn each {one} of a "
        "part is drawn independently with probability {rate}. A step releases a sum over the last {coefficients} "
        "batches with public weights, so that the noise that the optimizer sees cancels in part over steps."
    )
    WHO = "each {one} with probability {rate} in one of {steps} steps"
    OPTION = "cyclic-poisson"
    TAKES: ClassVar[Mapping[str, str]] = {
        "bands": "steps over which noise is correlated; --rate and --batch are a step's"
    }
    kind: Literal["cyclic_poisson"] = "cyclic_poisson"
    rate: Rate
    coefficients: Annotated[tuple[Coefficient, ...], Field(min_length=1)]

    @field_validator("coefficients")
    @classmethod
    def _bands(cls, coefficients: tuple[int, ...]) -> tuple[int, ...]:
        if len(coefficients) < 2:
            raise InputError("noise is correlated over two bands or more; for independent noise take PoissonSampling")
        if list(coefficients) != sorted(coefficients, reverse=True):
            raise InputError("coefficients must not rise, or else noise is not taken back but grows without end")
        return coefficients

    @classmethod
    def of_bands(cls, share: float, bands: int, steps: int) -> CyclicPoissonSampling:
        """Batches in which a unit is in a `share` of all steps on average, with the coefficients of `bands` bands that
        suit so many steps (`accounting.answers.bands`)."""
        from discreet.accounting.answers.bands import best_coefficients

        bands = checks.count("bands", bands, least=2)
        return cls(rate=turn(share, bands), coefficients=best_coefficients(bands, steps))

    @property
    def strategy(self) -> tuple[int, ...]:
        return self.coefficients

    @property
    def parts(self) -> int:
        """How many parts take turns, and over how many steps noise is correlated."""
        return len(self.coefficients)

    def sampler(self, population: float) -> Sampler:
        return CyclicPoissonSampler(self.parts, self.rate)

    def expected_batch(self, population: float) -> float:
        return self.rate / self.parts * population

    def epoch(self, population: float) -> float:
        return self.parts / self.rate

    @classmethod
    def from_options(cls, given: Options) -> Draws:
        """--bands; --rate, or --batch and --population, of a step."""
        if given.bands is None:
            raise InputError(f"--sampling {cls.OPTION} needs --bands, the steps over which noise is correlated")
        bands = checks.count("--bands", given.bands, least=2)
        share = given.share()
        return Draws(share, CyclicPoissonSampler(bands, turn(share, bands)).event, bands)


def turn(share: float, parts: int) -> float:
    """The probability of taking part in one's turn, for a unit that is in a `share` of all steps on average."""
    if share * parts > 1 + 1e-9:
        most = math.floor(1 / share * (1 + 1e-9))
        raise InputError(f"with {parts} bands a unit can be in one of {parts} steps at most; take at most {most} bands")
    return min(1.0, share * parts)
