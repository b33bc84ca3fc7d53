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
from discreet.cli.options.shared import with_options
from discreet.cli.options.table import NO_TABLE, TableOptions


@with_options(TableOptions)
def build(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe by name or .yaml file, a table, or a .py file whose function training() returns a Training."
        ),
    ],
    data: DataOption = None,
    options: TableOptions = NO_TABLE,
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
    from discreet.jobs.audits.audit_build import check_candidates, search_of, subject_of

    named = recipe, data, options, settings or [], overrides_of(epsilon, delta, population, None)
    subject = subject_of(*named)
    search = search_of(kind, grid, trials, law)
    check_candidates(search, *named)
    found = audit_build(subject, search=search, effort=effort)
    if as_json:
        echo_json(found.as_dict())
    else:
        typer.echo("made-up rows only; nothing is charged")
        for line in found.lines():
            typer.echo(line)
    if not found.passed:
        raise typer.Exit(1)
