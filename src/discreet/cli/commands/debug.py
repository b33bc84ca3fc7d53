"""`discreet debug`: the debug ladder of a recipe, a table or a folder of images, on public rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.json_output import JsonOption
from discreet.cli.options.run import (
    DataOption,
    DeltaOption,
    EpsilonOption,
    PopulationOption,
    SettingsOption,
    overrides_of,
)
from discreet.cli.options.shared import with_options
from discreet.cli.options.table import NO_TABLE, TableOptions

if TYPE_CHECKING:
    from discreet.recipes.ladder import Rung

_MEANS = {
    "plain": "model and optimizer, as without privacy",
    "clipped": "what clipping leaves",
    "noisy": "what the noise of the plan leaves",
}

_LOST = 0.02
"""A loss of accuracy from one rung to the next that is reported."""


@with_options(TableOptions)
def debug(
    recipe: Annotated[
        str, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images.")
    ] = "digits",
    data: DataOption = None,
    options: TableOptions = NO_TABLE,
    all_public: Annotated[
        bool, typer.Option("--all-public", help="All rows are declared public, also those to train on.")
    ] = False,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where accuracy is lost: plain, clipped, noisy. Trains on public rows only, and publishes nothing."""
    from discreet.jobs.debug import ladder

    overrides = overrides_of(epsilon, delta, population, None)
    rungs = []
    for rung in ladder(recipe, data, options, settings or [], overrides, all_public=all_public):
        rungs.append(rung)
        if not as_json:
            typer.echo(_line(rung))
    if as_json:
        typer.echo(json.dumps([asdict(rung) for rung in rungs]))
    elif (word := _word(rungs)) is not None:
        typer.echo(word)


def _line(rung: Rung) -> str:
    if rung.fault is not None:
        return f"{rung.name:8} -       {rung.fault}"
    accuracy = rung.metrics.get("accuracy")
    shown = f"{rung.metrics['loss']:<7.4g}" if accuracy is None else f"{accuracy:<7.1%}"
    return f"{rung.name:8} {shown} {_MEANS[rung.name]}"


def _word(rungs: list[Rung]) -> str | None:
    """A sentence on where most accuracy is lost, if any is."""
    found = [rung.metrics.get("accuracy") for rung in rungs]
    if None in found:
        return None
    plain, clipped, noisy = (value for value in found if value is not None)
    if max(plain - clipped, clipped - noisy) < _LOST:
        return "neither clipping nor noise costs much; what is missing is missing without privacy too"
    if plain - clipped >= clipped - noisy:
        return "most is lost to clipping: try a larger clip_norm with a smaller learning rate, or more steps"
    return "most is lost to noise: more rows or epsilon, larger batches, fewer trained parameters, fixed features"
