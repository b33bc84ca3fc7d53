"""The options of batch sampling; each sampler says itself what follows from them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import plug_in
from discreet.sampling import SAMPLERS, CyclicPoissonSampling, Draws, Options, PoissonSampling
from discreet.sampling.record import LARGEST_WHOLE

plug_in("samplers")
_BY_OPTION = {record.OPTION: record for record in SAMPLERS.values()}

if TYPE_CHECKING:
    Sampling = str
else:
    Sampling = StrEnum("Sampling", {name.upper(): name for name in _BY_OPTION})
DEFAULT = Sampling(PoissonSampling.OPTION)


def _owners(option: str) -> dict[str, str]:
    """The samplers that take an option that not all take, with their words on it."""
    return {name: record.TAKES[option] for name, record in _BY_OPTION.items() if option in record.TAKES}


def _help(option: str) -> str:
    owners = _owners(option)
    if len(owners) > 1:
        names = {says: ", ".join(name for name, its in owners.items() if its == says) for says in owners.values()}
        text = ", or ".join(f"{says} ({of})" for says, of in names.items())
    else:
        text = "".join(f"{says}, for --sampling {name}" for name, says in owners.items())
    return f"{text[0].upper()}{text[1:]}."


SamplingOption = Annotated[Sampling, typer.Option("--sampling", help="How batches are drawn.")]
_LEAST_RATE = 1e-15

RateOption = Annotated[float | None, typer.Option("--rate", help="Each unit's chance to be in a batch.")]
BatchOption = Annotated[float | None, typer.Option("--batch", help="Batch (its expectation), with --population.")]
PopulationOption = Annotated[
    float | None, typer.Option("--population", help="Declared public size of the data set; has no default.")
]
CapacityOption = Annotated[int | None, typer.Option("--capacity", help=_help("capacity"))]
PerEpochOption = Annotated[int | None, typer.Option("--per-epoch", help=_help("per_epoch"))]
ChosenOption = Annotated[int | None, typer.Option("--chosen", help=_help("chosen"))]
BandsOption = Annotated[int | None, typer.Option("--bands", help=_help("bands"))]
FullOption = Annotated[int | None, typer.Option("--full", help=_help("full"))]


def adjacency_for(sampling: str, adjacency: Adjacency | None) -> Adjacency:
    """The requested adjacency, or the one under which the sampler has a theorem."""
    return adjacency or _BY_OPTION[sampling].ADJACENCIES[0]


def draws(
    sampling: str,
    rate: float | None,
    batch: float | None,
    population: float | None,
    capacity: int | None = None,
    per_epoch: int | None = None,
    chosen: int | None = None,
    bands: int | None = None,
    full: int | None = None,
) -> Draws:
    """The options as `Draws`. `InputError` for a missing option, or one that does not belong to the sampler.

    Two bands or more make Poisson batches cyclic; one band is independent noise.
    """
    if sampling == PoissonSampling.OPTION and bands is not None:
        sampling, bands = (sampling, None) if bands == 1 else (CyclicPoissonSampling.OPTION, bands)
    special = {"capacity": capacity, "chosen": chosen, "per_epoch": per_epoch, "bands": bands, "full": full}
    for option, value in special.items():
        owners = _owners(option)
        if value is not None and sampling not in owners:
            name = option.replace("_", "-")
            raise InputError(f"--{name} is for --sampling {' or '.join(owners)}; leave it out for {sampling}")
        if value is not None and value > LARGEST_WHOLE:
            raise InputError(f"--{option.replace('_', '-')} must be a number below 2^63")
    if per_epoch is not None and (rate is not None or batch is not None):
        raise InputError("give --per-epoch, or --rate, or --batch with --population, not two of them")
    if rate is not None and batch is not None:
        raise InputError("give either --rate or --batch with --population, not both")
    given = Options(str(sampling), rate, batch, population, capacity, per_epoch, chosen, bands, full)
    for options, least in (("--rate", rate), ("--batch over --population", _share(batch, population))):
        if least is not None and 0 < least < _LEAST_RATE:
            raise InputError(f"{options} must be at least {_LEAST_RATE:g}, got {least:g}: nobody would ever take part")
    return _BY_OPTION[sampling].from_options(given)


def _share(batch: float | None, population: float | None) -> float | None:
    return batch / population if batch and population else None
