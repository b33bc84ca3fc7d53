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
    from discreet.data.tables.draft import FOUND_OUT, draft
    from discreet.data.tables.files.csv_format import CsvFormat
    from discreet.plan.pydantic_base import validate

    named = dict(zip(FOUND_OUT, (encoding, delimiter, decimal, thousands), strict=True))
    given = {name: _NAMED.get(value, value) for name, value in named.items() if value not in ("auto", "none")}
    csv = validate(CsvFormat, {"header": not no_header} | given, "options")
    text = draft(table, csv, [name for name, value in named.items() if value == "auto"])
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
    typer.echo(f"{out}: fill in every FILL_IN, then: discreet train {table} --schema {out} --epsilon 3")
