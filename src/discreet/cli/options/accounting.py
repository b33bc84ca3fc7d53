"""The options that describe a plan to `epsilon`, `compare` and `calibrate`, and how they become events."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from discreet.accounting import schedules
from discreet.accounting.method import Method
from discreet.cli.options.checked_numbers import number
from discreet.cli.options.json_output import echo_json
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.disk import refuse_special
from discreet.core.errors import InputError, plain
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee, Published, Statement
from discreet.core.rounding import delta_up, rounded_down, rounded_up
from discreet.sampling import Draws

_LARGEST_LIST, _MOST_PHASES = 1 << 20, 10_000
"""Bytes and pairs of a list of noise."""

_LEAST_NOISE = 1e-9
"""Less, or more than one over it, is a slip: such a plan gives everything away, or nothing."""

_MOST_STEPS = 10**12
N = TypeVar("N", int, float)

StepsOption = Annotated[int | None, number("--steps", checks.count, "Number of steps.")]
EpochsOption = Annotated[float | None, typer.Option("--epochs", help="Passes over the population, instead of --steps.")]
DeltaOption = Annotated[float, number("--delta", checks.open_unit, "Delta of the guarantee.")]
MaybeDeltaOption = Annotated[float | None, number("--delta", checks.open_unit, "Delta of the guarantee.")]
AdjacencyOption = Annotated[Adjacency, typer.Option("--adjacency", help="When two data sets are neighbours.")]
PlanAdjacencyOption = Annotated[
    Adjacency | None,
    typer.Option(
        "--adjacency",
        help="When two data sets are neighbours [add_remove; fixed: replace_one; shuffle: zero_out].",
    ),
]
MethodOption = Annotated[Method, typer.Option("--method", help="The theory; pld is the tightest that proves.")]
NoiseOption = Annotated[float | None, number("--noise", checks.positive, "Noise std / one unit's contribution.")]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="Noise over time, per epoch from 0: exponential:initial=10,rate=0.01 and so on."),
]
NoiseListOption = Annotated[
    Path | None, typer.Option("--noise-list", help="JSON file: list of [noise multiplier, steps].")
]


def step_count(steps: int | None, epochs: float | None, rate: float) -> int:
    """The number of steps from --steps or --epochs; epochs round up, so that none is lost."""
    if (steps is None) == (epochs is None):
        raise InputError("give either --steps or --epochs")
    if steps is not None:
        return _within("--steps", checks.count("--steps", steps))
    assert epochs is not None
    exact = _within("--epochs in steps", checks.positive("--epochs", epochs) / rate)
    nearest = round(exact)
    return max(1, nearest if abs(exact - nearest) < 1e-9 * exact else int(exact) + 1)


def _within(name: str, steps: N) -> N:
    if steps > _MOST_STEPS:
        raise InputError(f"{name} must be at most {_MOST_STEPS:,}, got {float(min(steps, 10**300)):.6g}")
    return steps


@dataclass(frozen=True, slots=True)
class PlannedNoise:
    """Noise multipliers over the steps of a plan, as (multiplier, steps) phases, and how its batches are drawn."""

    draws: Draws
    phases: tuple[tuple[float, int], ...]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return sum(count for _, count in self.phases)

    def event(self) -> Event:
        """All that the plan releases."""
        return self.first_steps(self.steps)

    def first_steps(self, count: int) -> Event:
        """The event of the first `count` steps."""
        taken: list[tuple[float, int]] = []
        for noise, steps in self.phases:
            if count > 0:
                taken.append((noise, min(count, steps)))
            count -= steps
        return self.draws.event(taken)


def planned_noise(
    draws: Draws,
    noise: float | None,
    noise_list: Path | None,
    schedule: str | None,
    steps: int | None,
    epochs: float | None,
) -> PlannedNoise:
    """The noise from exactly one of --noise, --schedule and --noise-list, with the steps that it covers."""
    if sum(given is not None for given in (noise, noise_list, schedule)) != 1:
        raise InputError("give one of --noise or --schedule, with --steps or --epochs, or --noise-list FILE")
    if noise_list is not None:
        if steps is not None or epochs is not None:
            raise InputError("--noise-list counts its own steps; leave out --steps and --epochs")
        return PlannedNoise(draws, tuple(read_noise_list(noise_list)))
    if schedule is not None:
        shape = schedules.parse(schedule)
        return PlannedNoise(draws, tuple(shape.phases(step_count(steps, epochs, draws.rate), draws.rate)))
    multiplier = checks.positive("--noise", noise)
    if not _LEAST_NOISE <= multiplier <= 1 / _LEAST_NOISE:
        raise InputError(f"--noise must be from {_LEAST_NOISE:g} to {1 / _LEAST_NOISE:g}, got {multiplier:g}")
    return PlannedNoise(draws, ((multiplier, step_count(steps, epochs, draws.rate)),))


def read_noise_list(path: Path) -> list[tuple[float, int]]:
    """The [noise multiplier, steps] pairs of a JSON file."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_LIST + 1)
        data = json.loads(content) if len(content) <= _LARGEST_LIST else None
    except OSError as error:
        raise InputError(f"cannot read --noise-list {path}: {error.strerror}; give a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--noise-list {path} is not JSON: {plain(str(error)):.200}") from None
    if not isinstance(data, list) or not 0 < len(data) <= _MOST_PHASES:
        raise InputError(
            f"--noise-list {path} must be a list of 1 to {_MOST_PHASES:,} pairs [noise multiplier, steps]; join pairs "
            "of equal noise"
        )
    return [_pair(path, row, entry) for row, entry in enumerate(data)]


def show(statement: Statement, as_json: bool, extra: Sequence[tuple[str, float]] = ()) -> None:
    """Print a method's statement, as one line or as one JSON object."""
    if as_json:
        echo_json({**dict(extra), **as_dict(statement)})
        return
    prefix = f"{named(dict(extra))}: " if extra else ""
    typer.echo(
        f"{prefix}epsilon {rounded_up(statement.epsilon)}{_at_least(statement)} at delta {delta_up(statement.delta)}, "
        f"{statement.adjacency.value}, {_standing(statement)}"
    )


def named(found: Mapping[str, float]) -> str:
    """The result of a calibration for people: noise rounded up, steps whole, all else rounded down."""
    noise = ("noise_multiplier", "initial")
    texts = {
        name: str(value) if isinstance(value, int) else (rounded_up if name in noise else rounded_down)(value, 6)
        for name, value in found.items()
    }
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


def as_dict(statement: Statement) -> dict[str, object]:
    """The fields of `--json`."""
    fields: dict[str, object] = {
        "epsilon": statement.epsilon,
        "lower": statement.lower if isinstance(statement, Guarantee) else None,
        "delta": statement.delta,
        "adjacency": statement.adjacency.value,
        "method": statement.method,
        "kind": statement.kind,
    }
    if not isinstance(statement, Guarantee):
        fields["reason"] = statement.reason
    if isinstance(statement, Published):
        fields["source"] = statement.source
    return fields


def _at_least(statement: Statement) -> str:
    lower = statement.lower if isinstance(statement, Guarantee) else None
    return "" if lower is None else f" (at least {rounded_down(lower)})"


def _standing(statement: Statement) -> str:
    if isinstance(statement, Guarantee):
        return f"{'proved' if math.isfinite(statement.epsilon) else 'nothing is proved'} by {statement.method}"
    what = "as published" if isinstance(statement, Published) else "an estimate"
    return f"{what} by {statement.method}, no guarantee. {statement.reason}"


def _pair(path: Path, row: int, entry: object) -> tuple[float, int]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError(f"--noise-list {path}, entry {row}: expected [noise multiplier, steps], got {entry!r}")
    return checks.positive(f"{path}[{row}][0]", entry[0]), _within(
        f"{path}[{row}][1]", checks.count(f"{path}[{row}][1]", entry[1])
    )
