"""`discreet schema`: a draft of what must be declared of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.core.errors import InputError

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


def schema(
    table: Annotated[
        Path,
        typer.Argument(help="The table: .csv (also .gz, .zip), .parquet, .xlsx, .sav, .dta; or a folder of images."),
    ],
    target: Annotated[str | None, typer.Option("--target", help="The column to predict.")] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column that says whose a row is; or row: one row a person.")
    ] = None,
    population: Annotated[
        float | None, typer.Option("--population", help="How many people (or rows) there are, as the public may know.")
    ] = None,
    public: Annotated[
        list[Path] | None,
        typer.Option("--public", "--test", help="Table that may be public: ranges and categories are taken from it."),
    ] = None,
    buy: Annotated[
        str | None,
        typer.Option("--buy", help="ranges: buy those that nobody knows, all for epsilon 0.3 when training starts."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write to [standard output].")] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", help="What parts the values of a .csv file: , or ; or tab or |.")
    ] = "auto",
    encoding: Annotated[
        str, typer.Option("--encoding", help="How text is encoded: utf-8, utf-16, latin-1, cp1252.")
    ] = "auto",
    decimal: Annotated[str, typer.Option("--decimal", help="The decimal mark of numbers: . or ,")] = "auto",
    thousands: Annotated[
        str, typer.Option("--thousands", help="What parts the thousands of numbers, or none.")
    ] = "auto",
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line of the .csv file is data.")] = False,
) -> None:
    """Draft a schema from the names and types of a table's columns, and say what is left to fill in."""
    from discreet.data.tables.drafting.draft import Known, draft, left_open
    from discreet.data.tables.files.csv_format import CsvFormat
    from discreet.data.tables.files.dialect import FOUND_OUT
    from discreet.plan.pydantic_base import validate

    named = dict(zip(FOUND_OUT, (encoding, delimiter, decimal, thousands), strict=True))
    given = {name: _NAMED.get(value, value) for name, value in named.items() if value not in ("auto", "none")}
    csv = validate(CsvFormat, {"header": not no_header} | given, "options")
    if buy not in (None, "ranges"):
        raise InputError(f"--buy takes ranges, got {buy}; of categories, write buy: {{noise: 10}} in the schema")
    known = Known(target, unit, population, tuple(public or ()), buy == "ranges")
    text = draft(table, csv, [name for name, value in named.items() if value == "auto"], known)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{out} exists already; name another file") from None
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; name another file") from None
    left = left_open(text)
    todo = f"fill in {', '.join(left)}; then" if left else "check what is proposed; then"
    test = "" if not public else f" --test {public[0]}"
    typer.echo(f"{out}: {todo}: discreet train {table} --schema {out} --epsilon 3{test}")
