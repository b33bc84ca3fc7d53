"""The options that say how batches are drawn, and the events that follow from them.

| --sampling | takes | default adjacency |
|---|---|---|
| poisson | --rate, or --batch and --population | add_remove |
| truncated | the same, --capacity, and --population as the most units that a data set may have | add_remove |
| fixed | --batch and --population, or --rate | replace_one |
| shuffle | --per-epoch (batches), or --batch and --population, or --rate | zero_out |
| allocation | --per-epoch (steps of a period), or --batch and --population, or --rate; --chosen | add_remove |
| none | nothing | add_remove |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

import typer

from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import (
    Allocation,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Poisson,
    Repeat,
    TruncatedPoisson,
)


class Sampling(StrEnum):
    """How batches are drawn."""

    POISSON = "poisson"
    TRUNCATED = "truncated"
    FIXED = "fixed"
    SHUFFLE = "shuffle"
    ALLOCATION = "allocation"
    NONE = "none"


SamplingOption = Annotated[Sampling, typer.Option("--sampling", help="How batches are drawn.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Each unit's chance to be in a batch.")]
BatchOption = Annotated[float | None, typer.Option("--batch", help="Batch (its expectation), with --population.")]
PopulationOption = Annotated[
    float | None, typer.Option("--population", help="Declared public size of the data set; has no default.")
]
CapacityOption = Annotated[
    int | None, typer.Option("--capacity", help="Most units in a batch, for --sampling truncated.")
]
PerEpochOption = Annotated[
    int | None, typer.Option("--per-epoch", help="Batches of an epoch (shuffle), or steps of a period (allocation).")
]
ChosenOption = Annotated[
    int | None, typer.Option("--chosen", help="Steps of a period that each unit is in [1], for --sampling allocation.")
]

Phases = Sequence[tuple[float, int]]
"""(noise multiplier, steps), in order."""

_DEFAULT_ADJACENCY = {Sampling.FIXED: Adjacency.REPLACE_ONE, Sampling.SHUFFLE: Adjacency.ZERO_OUT}


def adjacency_for(sampling: Sampling, adjacency: Adjacency | None) -> Adjacency:
    """What was asked for, or the adjacency that the sampler has a theorem under."""
    return adjacency or _DEFAULT_ADJACENCY.get(sampling, Adjacency.ADD_REMOVE)


@dataclass(frozen=True, slots=True)
class Draws:
    """How the batches of a plan are drawn. `rate` is the chance of a unit to be in a step; `period` is in steps."""

    sampling: Sampling
    rate: float
    period: int = 1
    chosen: int = 1
    batch: int = 0
    population: int = 0
    capacity: int = 0

    def event(self, phases: Phases) -> Event:
        """All that steps with this noise release. A period that was begun is stated whole, with its last noise."""
        if self.sampling in (Sampling.SHUFFLE, Sampling.ALLOCATION):
            parts = [Repeat(self._period(period), count) for period, count in _periods(phases, self.period)]
        else:
            parts = [Repeat(self._step(Gaussian(noise)), count) for noise, count in phases]
        return parts[0] if len(parts) == 1 else Compose(tuple(parts))

    def uniform(self, noise: float, steps: int) -> Event:
        """The same for steps of equal noise."""
        return self.event([(noise, steps)])

    def _step(self, inner: Event) -> Event:
        match self.sampling:
            case Sampling.TRUNCATED:
                return TruncatedPoisson(self.rate, self.capacity, self.population, inner)
            case Sampling.FIXED:
                return FixedSize(self.population, self.batch, inner)
            case _:
                return inner if self.rate == 1 else Poisson(self.rate, inner)

    def _period(self, phases: Phases) -> Event:
        parts = tuple(Repeat(Gaussian(noise), count) for noise, count in phases)
        if self.sampling is Sampling.SHUFFLE:
            return Epoch(parts[0] if len(parts) == 1 else Compose(parts))
        if len(parts) > 1:
            raise InputError(
                f"--sampling allocation: the noise changes inside a period of {self.period} steps; "
                "change it between periods only"
            )
        return Allocation(self.period, self.chosen, parts[0].event)


def draws(
    sampling: Sampling,
    rate: float | None,
    batch: float | None,
    population: float | None,
    capacity: int | None = None,
    per_epoch: int | None = None,
    chosen: int | None = None,
) -> Draws:
    """The options as `Draws`; what is missing, or does not belong to the sampler, is an `InputError`."""
    _refuse("--capacity", capacity, sampling, Sampling.TRUNCATED)
    _refuse("--chosen", chosen, sampling, Sampling.ALLOCATION)
    _refuse("--per-epoch", per_epoch, sampling, Sampling.SHUFFLE, Sampling.ALLOCATION)
    if sampling is Sampling.NONE:
        if rate is not None or batch is not None:
            raise InputError("--sampling none takes neither --rate nor --batch: every unit is in every step")
        return Draws(sampling, 1.0)
    if per_epoch is not None and (rate is not None or batch is not None):
        raise InputError("give --per-epoch, or --rate, or --batch with --population, not two of them")
    if rate is not None and batch is not None:
        raise InputError("give either --rate or --batch with --population, not both")
    if sampling is Sampling.FIXED:
        return _fixed(rate, batch, population)
    if sampling in (Sampling.SHUFFLE, Sampling.ALLOCATION):
        return _periodic(sampling, rate, batch, population, per_epoch, 1 if chosen is None else chosen)
    share = _rate(sampling, rate, batch, population)
    if sampling is Sampling.POISSON:
        return Draws(sampling, share)
    if capacity is None or population is None:
        raise InputError(
            "--sampling truncated needs --capacity, and --population as the most units that a data set may have"
        )
    return Draws(sampling, share, population=_whole("--population", population), capacity=capacity)


def _rate(sampling: Sampling, rate: float | None, batch: float | None, population: float | None) -> float:
    if rate is not None:
        return checks.rate("--rate", rate)
    if batch is None or population is None:
        raise InputError(f"--sampling {sampling} needs --rate, or --batch and --population")
    share = checks.positive("--batch", batch) / checks.positive("--population", population)
    return checks.rate("--batch / --population", share)


def _fixed(rate: float | None, batch: float | None, population: float | None) -> Draws:
    if rate is not None:
        share = Fraction(repr(checks.rate("--rate", rate)))
        return Draws(Sampling.FIXED, rate, batch=share.numerator, population=share.denominator)
    if batch is None or population is None:
        raise InputError("--sampling fixed needs --batch and --population, or --rate")
    size, total = _whole("--batch", batch), _whole("--population", population)
    if size > total:
        raise InputError(f"--batch {size} must not exceed --population {total}")
    return Draws(Sampling.FIXED, size / total, batch=size, population=total)


def _periodic(
    sampling: Sampling,
    rate: float | None,
    batch: float | None,
    population: float | None,
    per_epoch: int | None,
    chosen: int,
) -> Draws:
    """The last batch of an epoch may be smaller: their number is rounded up."""
    chosen = checks.count("--chosen", chosen)
    if per_epoch is not None:
        period = checks.count("--per-epoch", per_epoch)
    elif rate is not None or (batch is not None and population is not None):
        exact = chosen / _rate(sampling, rate, batch, population)
        period = round(exact) if abs(exact - round(exact)) < 1e-9 * exact else math.ceil(exact)
    else:
        raise InputError(f"--sampling {sampling} needs --per-epoch, or --rate, or --batch and --population")
    if chosen > period:
        raise InputError(f"--chosen {chosen} must not exceed the {period} steps of a period")
    return Draws(sampling, chosen / period, period=period, chosen=chosen)


def _periods(phases: Phases, period: int) -> list[tuple[list[tuple[float, int]], int]]:
    """Phases cut into periods, as (phases of one period, how many such); the last is filled up."""
    found: list[tuple[list[tuple[float, int]], int]] = []
    begun: list[tuple[float, int]] = []
    room = period
    for noise, steps in phases:
        left = steps
        while left > 0:
            if not begun and left >= period:
                found.append(([(noise, period)], left // period))
                left %= period
                continue
            taken = min(left, room)
            begun.append((noise, taken))
            left, room = left - taken, room - taken
            if room == 0:
                found.append((begun, 1))
                begun, room = [], period
    if begun:
        found.append(([*begun[:-1], (begun[-1][0], begun[-1][1] + room)], 1))
    return found


def _refuse(option: str, value: object, sampling: Sampling, *owners: Sampling) -> None:
    if value is not None and sampling not in owners:
        raise InputError(f"{option} is for --sampling {' or '.join(owners)}; leave it out for {sampling}")


def _whole(option: str, value: float) -> int:
    if not checks.positive(option, value) == int(value):
        raise InputError(f"{option} must be a whole number for this --sampling, got {value!r}")
    return int(value)
