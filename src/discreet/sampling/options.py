"""The sampling options of commands, and the draws that they describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, Gaussian, Repeat

Phases = Sequence[tuple[float, int]]
"""(noise multiplier, steps), in order."""


@dataclass(frozen=True, slots=True)
class Draws:
    """How batches are drawn: the probability that a unit is in a step, the event of a period, and the period in steps.

    `release` makes the event of a period from what its steps release, as `Sampler.event` does.
    """

    rate: float
    release: Callable[[Event], Event]
    period: int = 1

    def event(self, phases: Phases) -> Event:
        """The event of all steps of `phases`. An unfinished period counts as whole, with the noise of its last step."""
        parts = [Repeat(self.release(self._inner(period)), count) for period, count in _periods(phases, self.period)]
        return parts[0] if len(parts) == 1 else Compose(tuple(parts))

    def uniform(self, noise: float, steps: int) -> Event:
        """The event of `steps` steps with equal noise."""
        return self.event([(noise, steps)])

    def _inner(self, phases: Phases) -> Event:
        if self.period == 1:
            return Gaussian(phases[0][0])
        parts = tuple(Repeat(Gaussian(noise), count) for noise, count in phases)
        return parts[0] if len(parts) == 1 else Compose(parts)


@dataclass(frozen=True, slots=True)
class Options:
    """The sampling options of a command; None where the user left one out."""

    sampling: str
    rate: float | None = None
    batch: float | None = None
    population: float | None = None
    capacity: int | None = None
    per_epoch: int | None = None
    chosen: int | None = None
    bands: int | None = None
    full: int | None = None

    def share(self) -> float:
        """The probability that a unit is in a step: --rate, or --batch / --population; `InputError` without either."""
        if self.rate is not None:
            return checks.rate("--rate", self.rate)
        if self.batch is None or self.population is None:
            raise InputError(f"--sampling {self.sampling} needs --rate, or --batch and --population")
        share = checks.positive("--batch", self.batch) / checks.positive("--population", self.population)
        return checks.rate("--batch / --population", share)

    def period(self, chosen: int = 1) -> int:
        """The steps of a period in which a unit takes part `chosen` times, rounded up: a last batch may be smaller."""
        if self.per_epoch is not None:
            return checks.count("--per-epoch", self.per_epoch)
        if self.rate is None and (self.batch is None or self.population is None):
            raise InputError(f"--sampling {self.sampling} needs --per-epoch, or --rate, or --batch and --population")
        exact = chosen / self.share()
        return round(exact) if abs(exact - round(exact)) < 1e-9 * exact else math.ceil(exact)


def whole_option(option: str, value: float) -> int:
    """The value of an option as a whole number; `InputError` if it is none, or not positive."""
    if not checks.positive(option, value) == int(value):
        raise InputError(f"{option} must be a whole number for this --sampling, got {value!r}")
    return int(value)


def _periods(phases: Phases, period: int) -> list[tuple[list[tuple[float, int]], int]]:
    """Phases cut into periods, as (phases of one period, number of equal periods); the last period is filled up."""
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
