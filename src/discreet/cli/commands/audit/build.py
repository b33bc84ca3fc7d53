"""`discreet audit build`: whether a build does what its plan says, on made-up rows."""

from __future__ import annotations

from typing import Annotated

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
from discreet.cli.options.search import GridOption, KindOption, LawOption, TrialsOption
from discreet.cli.options.table import with_table
from discreet.core.errors import InputError
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts


@with_table
def build(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe by name or .yaml file, a table, or a .py file whose function training() returns a Training."
        ),
    ],
    data: DataOption = None,
    options: TableFacts = NO_TABLE,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    settings: SettingsOption = None,
    grid: GridOption = None,
    trials: TrialsOption = None,
    kind: KindOption = "random_stopping",
    law: LawOption = None,
    effort: Annotated[float, typer.Option("--effort", min=0.1, help="Steps, relative to the usual number.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Hold a build against its plan: what it releases, draws and charges, on made-up rows. Charges nothing.

    With --grid, as in `discreet tune`, the search for settings is looked at too.
    """
    from discreet.audit import audit_build
    from discreet.jobs.audits.audit_build import is_module, search_of, subject_of_module, subject_of_recipe
    from discreet.jobs.source import Work

    overrides, work = overrides_of(epsilon, delta, population, None), None
    if not is_module(recipe):
        work = Work.of(CommandLine(recipe, data, None, settings or (), overrides, options))
    elif data is not None or options.given or settings or overrides:
        raise InputError(f"{recipe} makes its training itself; leave out the other options")
    subject = subject_of_module(recipe) if work is None else subject_of_recipe(work.recipe, work.data)
    search = search_of(kind, grid, trials, law, None if work is None else work.recipe)
    found = audit_build(subject, search=search, effort=effort)
    if as_json:
        echo_json(found.as_dict())
    else:
        typer.echo("made-up rows only; nothing is charged")
        for line in found.lines():
            typer.echo(line)
    if not found.passed:
        raise typer.Exit(1)
