"""`discreet schema`: a draft of what must be declared of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options.dialect import FOUND, Dialect
from discreet.cli.options.population import population_option
from discreet.cli.options.shared import with_options
from discreet.core.disk import write_output
from discreet.core.errors import InputError, typed


@with_options(Dialect)
def schema(
    table: Annotated[
        Path,
        typer.Argument(
            help="The table: .csv (also .gz, .zip), .parquet, .jsonl, .xlsx, .sav, .dta; or a folder of images."
        ),
    ],
    target: Annotated[str | None, typer.Option("--target", help="The column to predict.")] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column that says whose a row is; or row: one row a person.")
    ] = None,
    population: Annotated[
        float | None, population_option("How many people (or rows) there are, as the public may know.")
    ] = None,
    public: Annotated[
        list[Path] | None,
        typer.Option("--public", "--test", help="Table that may be public: ranges and categories are taken from it."),
    ] = None,
    buy: Annotated[
        str | None,
        typer.Option("--buy", help="ranges: buy those that nobody knows, all for epsilon 0.3 when training starts."),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Weigh rare classes as much as frequent ones, by their shares in --test.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="File to write to [standard output].")] = None,
    dialect: Dialect = FOUND,
) -> None:
    """Draft a schema from the names and types of a table's columns, and say what is left to fill in."""
    from discreet.data.tables.drafting.draft import cautions, draft, left_open
    from discreet.data.tables.drafting.draft_column import Known

    if buy not in (None, "ranges"):
        raise InputError(f"--buy takes ranges, got {buy}; of categories, write buy: {{noise: 10}} in the schema")
    known = Known(target, unit, population, tuple(public or ()), buy == "ranges", balance)
    text = draft(table, *dialect.format(), known)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_output(out, text.encode(), replace=False)
    for caution in cautions(text):
        typer.echo(caution, err=True)
    left = left_open(text)
    todo = f"fill in {', '.join(left)}; then" if left else "check what is proposed; then"
    test = "" if not public else f" --test {typed(public[0])}"
    typer.echo(f"{out}: {todo}: discreet train {typed(table)} --schema {typed(out)} --epsilon 3{test}")
