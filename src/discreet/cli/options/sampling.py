"""The options of batch sampling; each sampler says itself what follows from them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.checked_numbers import number
from discreet.cli.options.population import population_option
from discreet.core import checks
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

RateOption = Annotated[float | None, number("--rate", checks.rate, "Each unit's chance to be in a batch.")]
BatchOption = Annotated[float | None, typer.Option("--batch", help="Batch (its expectation), with --population.")]
PopulationOption = Annotated[float | None, population_option("Declared public size of the data set; has no default.")]
CapacityOption = Annotated[int | None, typer.Option("--capacity", help=_help("capacity"))]
PerEpochOption = Annotated[int | None, typer.Option("--per-epoch", help=_help("per_epoch"))]
ChosenOption = Annotated[int | None, typer.Option("--chosen", help=_help("chosen"))]
BandsOption = Annotated[int | None, typer.Option("--bands", help=_help("bands"))]
FullOption = Annotated[int | None, typer.Option("--full", help=_help("full"))]


def adjacency_for(sampling: str, adjacency: Adjacency | None) -> Adjacency:
    """The requested adjacency, or the one under which the sampler has a theorem."""
    return adjacency or _BY_OPTION[sampling].ADJACENCIES[0]


def draws(given: Options) -> Draws:
    """The options as `Draws`. `InputError` for a missing option, or one that does not belong to the sampler.

    Two bands or more make Poisson batches cyclic; one band is independent noise.
    """
    if given.sampling == PoissonSampling.OPTION and given.bands is not None:
        cyclic = given.bands != 1
        given = replace(given, sampling=CyclicPoissonSampling.OPTION) if cyclic else replace(given, bands=None)
    for option in ("capacity", "chosen", "per_epoch", "bands", "full"):
        value, owners, name = getattr(given, option), _owners(option), option.replace("_", "-")
        if value is not None and given.sampling not in owners:
            raise InputError(f"--{name} is for --sampling {' or '.join(owners)}; leave it out for {given.sampling}")
        if value is not None and value > LARGEST_WHOLE:
            raise InputError(f"--{name} must be a number below 2^63")
    if given.per_epoch is not None and (given.rate is not None or given.batch is not None):
        raise InputError("give --per-epoch, or --rate, or --batch with --population, not two of them")
    if given.rate is not None and given.batch is not None:
        raise InputError("give either --rate or --batch with --population, not both")
    share = given.batch / given.population if given.batch and given.population else None
    for options, least in (("--rate", given.rate), ("--batch over --population", share)):
        if least is not None and 0 < least < _LEAST_RATE:
            raise InputError(f"{options} must be at least {_LEAST_RATE:g}, got {least:g}: nobody would ever take part")
    return _BY_OPTION[given.sampling].from_options(given)
