"""`discreet audit run`: what one whole training gives away of canaries, beside the epsilon of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.run import (
    DataOption,
    DeltaOption,
    DeviceOption,
    EpsilonOption,
    PopulationOption,
    SettingsOption,
    overrides_of,
)
from discreet.cli.options.table import with_table
from discreet.core.errors import InputError
from discreet.core.rounding import delta_up, rounded_up
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts

if TYPE_CHECKING:
    from discreet.audit.one_run.one_run_report import OneRunReport
    from discreet.jobs.audits.audit_run import OneRunAudit

_BOXES = {
    "white": "white box: each canary has a number of its own in what is released",
    "black": "black box: the final model's loss on rows with wrong targets",
}


@with_table
def run(
    recipe: Annotated[str, typer.Argument(help="A recipe by name or .yaml file, a table, a folder of images.")],
    data: DataOption = None,
    options: TableFacts = NO_TABLE,
    canaries: Annotated[
        int | None, typer.Option("--canaries", min=2, help="Canaries of each kind [1000, if there is room].")
    ] = None,
    box: Annotated[str, typer.Option("--box", help="What the auditor sees: white, black or both.")] = "both",
    made_up: Annotated[bool, typer.Option("--made-up", help="Train on made-up rows; read no data.")] = False,
    all_public: Annotated[
        bool, typer.Option("--all-public", help="All rows are declared public, also those to train on.")
    ] = False,
    failure: Annotated[
        float, typer.Option("--failure", help="How often each lower bound may exceed the truth.")
    ] = 0.05,
    guesses: Annotated[
        str, typer.Option("--guesses", help="Numbers of guesses, fixed beforehand: 100,300 [the plan's best].")
    ] = "",
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    settings: SettingsOption = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train once on public or made-up rows, and bound from below what the run gave away. Publishes nothing."""
    from discreet.core.checks import open_unit
    from discreet.jobs.audits.audit_run import OneRunAudit
    from discreet.jobs.source import Work

    level, numbers = open_unit("--failure", failure), _numbers(guesses)
    overrides = overrides_of(epsilon, delta, population, None)
    work = Work.of(CommandLine(recipe, data, None, settings or (), overrides, options))
    audit = OneRunAudit.new(work, all_public=all_public, made_up=made_up, box=box, canaries=canaries, device=device)
    if not as_json:
        for line in _said_first(recipe, audit):
            typer.echo(line)
    found = audit.run(level, numbers, progress=False if as_json else None)
    if as_json:
        echo_json(found.as_dict() | {"rows": audit.of, "epsilon_of_the_whole_plan": audit.whole})
    else:
        for line in _lines(found, audit):
            typer.echo(line)
    if found.refuted:
        raise typer.Exit(1)


def _numbers(given: str) -> tuple[int, ...]:
    if not given:
        return ()
    try:
        numbers = tuple(int(one) for one in given.split(","))
    except ValueError:
        numbers = (0,)
    if min(numbers) < 1:
        raise InputError(f"--guesses is a list of whole numbers above 0, like 100,300; not {given!r}")
    return numbers


def _said_first(recipe: str, audit: OneRunAudit) -> list[str]:
    plan, counts = audit.subject.plan, {"white": audit.white, "black": audit.black}
    lines = [
        f"audit of {recipe} in one run: {plan.steps:,} steps of its plan on {audit.of}; coins decide which canaries "
        "are in",
        "no private row is trained on, no ledger is charged, nothing is published; the model is thrown away",
    ]
    return lines + [f"{counts[box]:,} canaries, {said}" for box, said in _BOXES.items() if counts[box]]


def _lines(found: OneRunReport, audit: OneRunAudit) -> list[str]:
    lines, box, counts = [""], "", {"white": audit.white, "black": audit.black}
    for one in found.bounds:
        if one.box != box:
            box = one.box
            lines.append(f"{_BOXES[box].partition(':')[0]}, {counts[box]:,} canaries")
        guessed = ", ".join(f"{right:,} of {of:,}" for right, of in one.right)
        lines.append(
            f"  epsilon >= {one.epsilon:<7.3g} {one.method} ({guessed} guesses right, p = {one.p:.2g}); "
            f"assumes {one.assumes}"
        )
    lines.append(
        f"the plan's steps claim epsilon {rounded_up(found.claimed)} at delta {delta_up(found.delta)}"
        + ("" if audit.whole <= found.claimed * 1.001 else f", and with all that it buys {rounded_up(audit.whole)}")
        + f"; each lower bound exceeds the truth with probability at most {found.failure:g}"
    )
    return [*lines, found.verdict]
