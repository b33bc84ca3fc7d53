"""The options that describe a plan to `epsilon` and `calibrate`, and how they become events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.accounting.account import Method
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat
from discreet.core.guarantee import Guarantee


class Sampling(StrEnum):
    """How batches are drawn."""

    POISSON = "poisson"
    NONE = "none"


SamplingOption = Annotated[Sampling, typer.Option("--sampling", help="How batches are drawn.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Each unit's chance to be in a batch.")]
BatchOption = Annotated[float | None, typer.Option("--batch", help="Expected batch, with --population.")]
PopulationOption = Annotated[
    float | None, typer.Option("--population", help="Declared public size of the data set; has no default.")
]
StepsOption = Annotated[int | None, typer.Option("--steps", help="Number of steps.")]
EpochsOption = Annotated[float | None, typer.Option("--epochs", help="Passes over the population, instead of --steps.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="Delta of the guarantee.")]
AdjacencyOption = Annotated[Adjacency, typer.Option("--adjacency", help="When two data sets are neighbours.")]
MethodOption = Annotated[Method, typer.Option("--method", help="The theory that proves the bound.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoiseListOption = Annotated[
    Path | None, typer.Option("--noise-list", help="JSON file: list of [noise multiplier, steps].")
]


def sampling_rate(sampling: Sampling, rate: float | None, batch: float | None, population: float | None) -> float:
    """The sampling rate from --rate, or from --batch and --population."""
    if sampling is Sampling.NONE:
        if rate is not None or batch is not None:
            raise InputError("--sampling none takes neither --rate nor --batch: every unit is in every step")
        return 1.0
    if rate is not None:
        if batch is not None:
            raise InputError("give either --rate or --batch with --population, not both")
        return checks.rate("--rate", rate)
    if batch is None or population is None:
        raise InputError("--sampling poisson needs --rate, or --batch and --population")
    return checks.rate("--batch / --population", checks.positive("--batch", batch) / _population(population))


def step_count(steps: int | None, epochs: float | None, rate: float) -> int:
    """The number of steps from --steps or --epochs; epochs round up, so that none is lost."""
    if (steps is None) == (epochs is None):
        raise InputError("give either --steps or --epochs")
    if steps is not None:
        return checks.count("--steps", steps)
    assert epochs is not None
    exact = checks.positive("--epochs", epochs) / rate
    nearest = round(exact)
    return max(1, nearest if abs(exact - nearest) < 1e-9 * exact else int(exact) + 1)


def plan_event(rate: float, noise: float, steps: int) -> Event:
    """`steps` Poisson-sampled Gaussian releases (unsampled at rate 1)."""
    inner = Gaussian(noise)
    return Repeat(inner if rate == 1 else Poisson(rate, inner), steps)


def read_noise_list(path: Path, rate: float) -> Event:
    """The event of a JSON file that lists [noise multiplier, steps] pairs."""
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read --noise-list {path}: {error.strerror}; give a JSON file") from None
    except ValueError as error:
        raise InputError(f"--noise-list {path} is not JSON: {error}") from None
    if not isinstance(data, list) or not data:
        raise InputError(f"--noise-list {path} must be a non-empty list of [noise multiplier, steps]")
    return Compose(tuple(plan_event(rate, *_pair(path, row, entry)) for row, entry in enumerate(data)))


def show(guarantee: Guarantee, as_json: bool, extra: Sequence[tuple[str, float]] = ()) -> None:
    """Print a guarantee, as one line or as one JSON object."""
    if as_json:
        # 1e999 is how standard JSON can say infinity; every parser reads it as a number beyond all others.
        typer.echo(json.dumps({**dict(extra), **as_dict(guarantee)}).replace("Infinity", "1e999"))
        return
    lower = "" if guarantee.lower is None else f" (at least {guarantee.lower:.5g})"
    prefix = "".join(f"{name.replace('_', ' ')} {value:.6g}: " for name, value in extra)
    typer.echo(
        f"{prefix}epsilon {guarantee.epsilon:.5g}{lower} at delta {guarantee.delta:g}, "
        f"{guarantee.adjacency.value}, proved by {guarantee.method}"
    )


def as_dict(guarantee: Guarantee) -> dict[str, object]:
    """The fields of `--json`."""
    return {
        "epsilon": guarantee.epsilon,
        "lower": guarantee.lower,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency.value,
        "method": guarantee.method,
        "kind": guarantee.kind,
    }


def _pair(path: Path, row: int, entry: object) -> tuple[float, int]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError(f"--noise-list {path}, entry {row}: expected [noise multiplier, steps], got {entry!r}")
    return checks.positive(f"{path}[{row}][0]", entry[0]), checks.count(f"{path}[{row}][1]", entry[1])


def _population(value: float) -> float:
    return checks.positive("--population", value)
