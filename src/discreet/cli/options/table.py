"""The options about tables and folders of images, for all commands that take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options.image_or_text import WideOptions
from discreet.cli.options.run import DATA, PRIVACY
from discreet.jobs.tables.table_facts import TableFacts

TargetOption = Annotated[
    str | None,
    typer.Option("--target", help="Column to predict; or several true/false labels: A,B.", rich_help_panel=DATA),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema", help="What the table's columns are (.yaml); `discreet schema` drafts it.", rich_help_panel=DATA
    ),
]
UnitOption = Annotated[
    str | None,
    typer.Option("--unit", help="Column that says whose a row is; or row: one row a person.", rich_help_panel=PRIVACY),
]
TestOption = Annotated[
    Path | None,
    typer.Option("--test", help="Table that may be public, to measure the model on.", rich_help_panel=DATA),
]
PublicOption = Annotated[
    Path | None,
    typer.Option("--public", help="Public table whose rows join every step, unprotected.", rich_help_panel=DATA),
]


@dataclass(frozen=True, slots=True)
class TableOptions(TableFacts):
    """Facts about a table or a folder of images from the command line; each field is an option."""

    schema: SchemaOption = None
    target: TargetOption = None
    unit: UnitOption = None
    test: TestOption = None
    public: PublicOption = None
    wide: WideOptions = field(default_factory=WideOptions)


NO_TABLE = TableOptions()
