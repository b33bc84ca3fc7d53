"""Noise schedules: the noise multiplier as a function of time, decided before the data is seen.

From Yu et al. 2019, section III-C (except for the last three). Expected batches may follow a schedule as well. Time t
counts epochs, or steps if the schedule says `per=step`, from 0.

| name        | multiplier at t                                              | parameters                      |
|-------------|--------------------------------------------------------------|---------------------------------|
| uniform     | initial                                                      |                                 |
| time        | initial / (1 + rate t)                                       | rate > 0                        |
| exponential | initial exp(-rate t)                                         | rate > 0                        |
| step        | initial rate^floor(t / period)                               | 0 < rate < 1, period            |
| polynomial  | (initial - end) (1 - t / period)^rate + end, then end        | rate > 0, end < initial, period |
| linear      | initial + (end - initial) t / period, then end | end > 0, which may be above initial; period |
| power       | initial (1 + t)^rate, for Langevin steps (`methods.SGLD`)    | 0 < rate <= 10                  |
| piecewise   | that of the last start at or before t                        | start=multiplier, from 0 on     |

A schedule of your own is a function that `register` puts beside them.

All take `every` (the multiplier changes only when t is a multiple of it) and `floor` (it never falls below).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from discreet.accounting.bisection import bisect
from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import plug_in

GRID = 1e-4
"""`solve_rate` tries multiples of this, as the paper did (section V-B2)."""

_FASTEST = 100.0

MOST_MULTIPLIERS, MOST_EPOCHS = 100_000, 1_000_000
"""A schedule with more different multipliers, or over more epochs or steps of its own, is refused."""


Shape = Callable[["Schedule", int], float]
"""The multiplier of a schedule at time t."""


class Kind(StrEnum):
    """The families of schedules."""

    UNIFORM = "uniform"
    TIME = "time"
    EXPONENTIAL = "exponential"
    STEP = "step"
    POLYNOMIAL = "polynomial"
    LINEAR = "linear"
    POWER = "power"
    PIECEWISE = "piecewise"


_NEEDS: dict[str, set[str]] = {
    Kind.UNIFORM: {"initial"},
    Kind.TIME: {"initial", "rate"},
    Kind.EXPONENTIAL: {"initial", "rate"},
    Kind.STEP: {"initial", "rate", "period"},
    Kind.POLYNOMIAL: {"initial", "rate", "end", "period"},
    Kind.LINEAR: {"initial", "end", "period"},
    Kind.POWER: {"initial", "rate"},
    Kind.PIECEWISE: set(),
}
RATELESS: tuple[Kind, ...] = (Kind.UNIFORM, Kind.LINEAR, Kind.POWER, Kind.PIECEWISE)
"""Schedules for which `solve_rate` refuses: they have no rate, or their noise rises with it."""

_ALL_TAKE = {"per", "every", "floor"}

_ADDED: dict[str, Shape] = {}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A noise schedule. `rate` is None until `solve_rate` finds it; with `per_step`, t counts steps.

    `pieces` are the (start, multiplier) pairs of a piecewise schedule, whose `initial` is the first multiplier.
    """

    kind: str
    initial: float
    rate: float | None = None
    period: int = 1
    end: float = 0.0
    per_step: bool = False
    every: int = 1
    floor: float = 0.0
    pieces: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", checks.positive("schedule: initial", self.initial))
        object.__setattr__(self, "period", checks.count("schedule: period", self.period))
        object.__setattr__(self, "every", checks.count("schedule: every", self.every))
        object.__setattr__(self, "floor", checks.nonnegative("schedule: floor", self.floor))
        self._check_pieces()
        if self.rate is not None:
            object.__setattr__(self, "rate", checks.positive("schedule: rate", self.rate))
            if self.kind == Kind.STEP and not self.rate < 1:
                raise InputError(f"schedule: rate of a step schedule must be less than 1, got {self.rate!r}")
            if self.kind == Kind.POWER and not self.rate <= 10:
                raise InputError(f"schedule: rate of a power schedule must be at most 10, got {self.rate!r}")
        if self.kind == Kind.POLYNOMIAL and not 0 < self.end < self.initial:
            raise InputError(f"schedule: end must be greater than 0 and less than initial, got {self.end!r}")
        if self.kind == Kind.LINEAR and not 0 < self.end < math.inf:
            raise InputError(f"schedule: end must be finite and greater than 0, got {self.end!r}")

    def _check_pieces(self) -> None:
        starts = [start for start, _ in self.pieces]
        if (self.kind == Kind.PIECEWISE) != bool(starts) or (starts and starts[0] != 0):
            raise InputError("schedule: a piecewise schedule needs start=multiplier pairs, the first at 0")
        if any(not low < high for low, high in itertools.pairwise(starts)):
            raise InputError(f"schedule: the starts of the pieces must rise, got {starts}")
        for start, noise in self.pieces:
            checks.positive(f"schedule: multiplier from {start}", noise)

    def multiplier(self, t: int) -> float:
        """The noise multiplier at epoch (or step) `t`, counted from 0."""
        return max(self.floor, self._shape(t - t % self.every))

    def _shape(self, t: int) -> float:
        if self.kind in _ADDED:
            return _ADDED[self.kind](self, t)
        if self.kind == Kind.UNIFORM:
            return self.initial
        if self.kind == Kind.PIECEWISE:
            return next(noise for start, noise in reversed(self.pieces) if start <= t)
        if self.kind == Kind.LINEAR:
            return self.initial + (self.end - self.initial) * (min(t, self.period) / self.period)
        if self.rate is None:
            raise InputError("schedule: rate is missing; give rate=..., or let `calibrate` find it")
        match self.kind:
            case Kind.TIME:
                return self.initial / (1 + self.rate * t)
            case Kind.POWER:
                return self.initial * float((1 + t) ** self.rate)
            case Kind.EXPONENTIAL:
                return self.initial * math.exp(-self.rate * t)
            case Kind.STEP:
                return self.initial * float(self.rate ** (t // self.period))
            case Kind.POLYNOMIAL:
                left = 1 - min(t, self.period) / self.period
                return (self.initial - self.end) * float(left**self.rate) + self.end
        raise InputError(f"schedule: unknown schedule {self.kind!r}")

    def phases(self, steps: int, sampling_rate: float) -> list[tuple[float, int]]:
        """Runs (multiplier, length) that make up `steps` steps; step i belongs to epoch floor(i x sampling rate)."""
        return self.over(self._spans(checks.count("steps", steps), sampling_rate))

    def over(self, spans: Iterable[tuple[int, int, int]]) -> list[tuple[float, int]]:
        """Runs (multiplier, length) over epochs, or steps: `spans` has (t, first step, step after the last) of each."""
        return joined((t, self.multiplier(t), end - begin) for t, begin, end in spans)

    def _spans(self, steps: int, sampling_rate: float) -> Iterator[tuple[int, int, int]]:
        """Triples (t, first step, step after the last) until `steps` steps are covered."""
        begin = 0
        for t in itertools.count():
            exact = t + 1 if self.per_step else (t + 1) / sampling_rate
            end = min(steps, math.ceil(exact * (1 - 1e-12)))
            if end > begin:
                yield t, begin, end
            begin = end
            if begin >= steps:
                return

    def rho(self, epochs: int) -> float:
        """The zCDP rho of `epochs` epochs that cost one Gaussian each: the sum of 1 / (2 sigma_t^2)."""
        try:
            return math.fsum(0.5 / self.multiplier(t) ** 2 for t in range(epochs))
        except (ZeroDivisionError, OverflowError):
            return math.inf


def joined(parts: Iterable[tuple[int, float, int]]) -> list[tuple[float, int]]:
    """(value, steps), equal neighbours as one, from (t, value, steps); `InputError` for a value of 0 or too many."""
    found: list[tuple[float, int]] = []
    for t, value, steps in parts:
        if not value > 0:
            raise InputError(f"schedule: the value has fallen to 0 at t = {t}; let it decay slower")
        if found and found[-1][0] == value:
            found[-1] = (value, found[-1][1] + steps)
        else:
            found.append((value, steps))
        if len(found) > MOST_MULTIPLIERS or t >= MOST_EPOCHS:
            raise InputError(
                f"a schedule has at most {MOST_MULTIPLIERS:,} different multipliers in {MOST_EPOCHS:,} epochs (or "
                "steps, with per=step); let each hold longer, with every=..., or take fewer"
            )
    return found


def register(name: str, *needs: str) -> Callable[[Shape], Shape]:
    """A decorator that puts a schedule into the table: a function of the `Schedule`, whose fields are what users gave,
    and t. `needs`: those of `initial`, `rate`, `period` and `end` that must be given.

    Plans hold the multipliers that it returns, so it changes no claim and no verifier.
    """
    if name in _NEEDS:
        raise InputError(f"there is a schedule {name!r} already; take another name")
    if unknown := set(needs) - {"initial", "rate", "period", "end"}:
        raise InputError(f"a schedule may need initial, rate, period and end, not {', '.join(sorted(unknown))}")

    def put(shape: Shape) -> Shape:
        _NEEDS[name], _ADDED[name] = {"initial", *needs}, shape
        return shape

    return put


def parse(text: str, *, without_initial: bool = False) -> Schedule:
    """A schedule from `name:key=value,...`, for example `exponential:initial=10,rate=0.01`; the rate is optional.

    `without_initial`: the initial multiplier is optional too; a placeholder, to be replaced, stands for it.
    """
    name, _, rest = text.partition(":")
    if name not in _NEEDS:
        plug_in("schedules")
    if name not in _NEEDS:
        raise InputError(f"--schedule: unknown schedule {name!r}; known: {', '.join(_NEEDS)}")
    kind = name if name in _ADDED else Kind(name)
    given: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        known_here = _NEEDS[kind] | _ALL_TAKE
        is_piece = kind is Kind.PIECEWISE and key.isdecimal()
        if not equals or key in given or not (key in known_here or is_piece):
            known = ", ".join(sorted(known_here | ({"0, 20, ..."} if kind is Kind.PIECEWISE else set())))
            raise InputError(f"--schedule {text}: cannot use {item!r}; {kind} takes {known}, each once, as key=value")
        given[key] = value
    missing = _NEEDS[kind] - set(given) - {"rate"} - ({"initial"} if without_initial else set())
    if missing:
        raise InputError(f"--schedule {text}: {kind} needs {', '.join(sorted(missing))}")
    if given.get("per", "epoch") not in ("epoch", "step"):
        raise InputError(f"--schedule {text}: per must be epoch or step, got {given['per']!r}")
    numbers = {key: _number(text, key, value) for key, value in given.items() if key != "per"}
    whole = {key: numbers.pop(key, 1.0) for key in ("period", "every")}
    for key, number in whole.items():
        if number != int(number):
            raise InputError(f"--schedule {text}: {key} must be a whole number, got {number!r}")
    pieces = tuple((int(key), numbers.pop(key)) for key in list(numbers) if key.isdecimal())
    initial = numbers.pop("initial", pieces[0][1] if pieces else 1.0 + numbers.get("end", 0.0))
    period, every = int(whole["period"]), int(whole["every"])
    per_step = given.get("per") == "step"
    return Schedule(kind, initial, period=period, every=every, per_step=per_step, pieces=pieces, **numbers)


def epochs_within(schedule: Schedule, rho: float) -> int:
    """The number of epochs that fit a zCDP budget: the run stops before the epoch that would overspend (Table II).

    The budget may be exceeded by a billionth, so that 100 epochs at 1 / 128 fit 0.78125 despite rounding.
    """
    rho = checks.positive("rho", rho)
    if schedule.kind == Kind.UNIFORM:
        return int(rho * 2 * schedule.multiplier(0) ** 2 * (1 + 1e-9))
    spent = 0.0
    for t in range(MOST_EPOCHS):
        noise = schedule.multiplier(t)
        spent += 0.5 / noise**2 if noise > 1e-150 else math.inf
        if spent > rho * (1 + 1e-9):
            return t
    raise InputError(f"the budget lasts for more than {MOST_EPOCHS:,} epochs; give a smaller one or a faster decay")


def solve_rate(schedule: Schedule, fits: Callable[[Schedule, int], bool], epochs: int) -> Schedule:
    """The smallest rate, in multiples of `GRID`, with which a budget ends after exactly `epochs` epochs.

    `fits(schedule, n)` says whether n epochs stay within the budget; at the rate found, `epochs` fit and one more does
    not. Table III was made so (with a coarser grid in six of its 32 entries). If no multiple of `GRID` does it, finer
    grids are tried. `InputError` if there is no such rate.
    """
    epochs = checks.count("epochs", epochs)
    if schedule.kind in RATELESS or schedule.kind in _ADDED:
        raise InputError(f"--schedule: a {schedule.kind} schedule has no rate to find; calibrate the noise instead")
    falling = schedule.kind == Kind.STEP  # the smaller the rate of a step schedule, the faster it decays

    def at(rate: float) -> Schedule:
        return replace(schedule, rate=rate)

    def reached(rate: float) -> bool:
        """Monotone: false for small rates, true for large ones."""
        return fits(at(rate), epochs) if falling else not fits(at(rate), epochs + 1)

    low, high = (1e-9, 1 - 1e-9) if falling else (1e-9, GRID)
    while not falling and not reached(high) and high < _FASTEST:
        low, high = high, 4 * high
    if not reached(high) or (low < GRID and not falling and not fits(at(low), epochs)):
        what = "more" if not falling and not reached(high) else "less"
        raise InputError(f"the budget lasts for {what} than {epochs} epochs at any rate; change it or the noise")
    for grid in (GRID, GRID / 10, GRID / 100, GRID / 1000, GRID / 10_000):
        low, high = bisect(reached, low, high, absolute=0.25 * grid)
        for tick in (math.floor(high / grid), math.ceil(high / grid)):
            rate = round(tick * grid, 12)
            if rate > low and reached(rate) and fits(at(rate), epochs) and not fits(at(rate), epochs + 1):
                return at(rate)
    raise InputError(f"no rate makes the budget end after exactly {epochs} epochs; change the initial noise or epochs")


def _number(text: str, key: str, value: str) -> float:
    try:
        return checks.positive(f"--schedule {text}: {key}", float(value))
    except InputError:
        raise
    except ValueError:
        raise InputError(f"--schedule {text}: {key} must be a number, got {value!r}") from None
