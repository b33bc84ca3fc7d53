"""`discreet debug`: the debug ladder of a recipe, a table or a folder of images, on public rows."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.run import (
    DataOption,
    DeltaOption,
    EpsilonOption,
    PopulationOption,
    SettingsOption,
    overrides_of,
)
from discreet.cli.options.table import with_table
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts

if TYPE_CHECKING:
    from discreet.recipes.ladder import Rung

_MEANS = {
    "plain": "model and optimizer, as without privacy",
    "clipped": "what clipping leaves",
    "noisy": "what the noise of the plan leaves",
}

_TRY = {
    "clipping": "try a larger clip_norm with a smaller learning rate, or more steps",
    "noise": "more rows or epsilon, larger batches, fewer trained parameters, fixed features",
}

_LOST = 0.02
"""A loss of accuracy from one rung to the next that is reported."""

_CHANCE = 2.0
"""The standard errors of a difference of two accuracies up to which chance explains it."""


@with_table
def debug(
    recipe: Annotated[
        str, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images.")
    ] = "digits",
    data: DataOption = None,
    options: TableFacts = NO_TABLE,
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
    from discreet.jobs.source import Work

    overrides = overrides_of(epsilon, delta, population, None)
    work = Work.of(CommandLine(recipe, data, None, settings or (), overrides, options))
    rungs = []
    for rung in ladder(work, all_public=all_public):
        rungs.append(rung)
        if not as_json:
            typer.echo(_line(rung))
    if as_json:
        echo_json([asdict(rung) for rung in rungs])
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
    lost = max((plain - clipped, "clipping"), (clipped - noisy, "noise"), key=lambda one: one[0])
    if lost[0] < _LOST:
        return "neither clipping nor noise costs much; what is missing is missing without privacy too"
    before, after = (plain, clipped) if lost[1] == "clipping" else (clipped, noisy)
    rows = rungs[-1].rows
    if lost[0] <= _CHANCE * math.sqrt((before * (1 - before) + after * (1 - after)) / rows):
        return f"the rungs differ by no more than chance on {rows} public rows; more would tell where it is lost"
    return f"most is lost to {lost[1]}: {_TRY[lost[1]]}"
