"""`discreet schema`: a draft of what must be declared of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.core.errors import InputError


def schema(
    table: Annotated[Path, typer.Argument(help="The table: .csv or .parquet; or a folder of images.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write to [standard output].")] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="What parts the values of a .csv file.")] = ",",
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line of the .csv file is data.")] = False,
) -> None:
    """Draft a schema from the names and types of a table's columns, and say what is left to fill in."""
    from discreet.data.tables.draft import draft
    from discreet.data.tables.schema import CsvFormat
    from discreet.plan.pydantic_base import validate

    given = {"delimiter": delimiter.replace("\\t", "\t"), "header": not no_header}
    text = draft(table, validate(CsvFormat, given, "--delimiter"))
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
