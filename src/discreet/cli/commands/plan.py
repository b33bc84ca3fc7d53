"""`discreet plan`: what a run would release, of a recipe, a table or a folder of images, before anything is charged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options.checked_numbers import number
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.run import (
    DeltaOption,
    EpsilonOption,
    HoldoutOption,
    PopulationOption,
    SettingsOption,
    overrides_of,
)
from discreet.cli.options.table import with_table
from discreet.cli.show import cards as on_paper
from discreet.cli.show import planned
from discreet.core import checks
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts


@with_table
def plan(
    recipe: Annotated[
        str, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images, as of train.")
    ],
    data: Annotated[
        Path | None, typer.Option("--data", help="As of train, whose options fit here: no row is needed, none is read.")
    ] = None,
    options: TableFacts = NO_TABLE,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    holdout: HoldoutOption = None,
    settings: SettingsOption = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Picture of noise and epsilon: .png or .svg.")] = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Time a few private steps on random data, for the wall time.")
    ] = True,
    processes: Annotated[
        int | None, number("--processes", checks.count, "Estimate the steps on so many graphics cards, on paper.")
    ] = None,
    cards: Annotated[str, typer.Option("--cards", help="Their kind: A100, H100, H200.")] = "H100",
    as_json: JsonOption = False,
) -> None:
    """Show steps, noise, epsilon and time of a run; charge nothing, read no private row, and train on no data."""
    from discreet.cli.show.picture_files import check_target
    from discreet.jobs.source import Work

    if plot is not None:
        check_target(plot)
    overrides = overrides_of(epsilon, delta, population, holdout)
    work = Work.of(CommandLine(recipe, None, None, settings or (), overrides, options))
    work.check_columns()
    facts = planned.facts_of(work.recipe, work.table, probe=probe)
    on_cards = None if processes is None else on_paper.facts_of(work.recipe, processes, cards)
    if plot is not None:
        from discreet.cli.show.plan_plot import draw

        draw(plot, facts)
    if as_json:
        echo_json(facts if on_cards is None else facts | {"on_cards": on_cards})
        return
    planned.say(work.recipe, facts)
    for line in [] if on_cards is None else on_paper.lines(on_cards):
        typer.echo(line)
