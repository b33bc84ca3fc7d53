"""The options of the command line that are about tables and folders of images, for every command that takes these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options.image_or_text import WideOptions
from discreet.jobs.table_facts import TableFacts

TargetOption = Annotated[
    str | None, typer.Option("--target", help="Of a table: the column to predict, or labels A,B,C.")
]
SchemaOption = Annotated[Path | None, typer.Option("--schema", help="Of a table: its schema, a .yaml file.")]
UnitOption = Annotated[
    str | None, typer.Option("--unit", help="Of a table: the column that says whose a row is, or row.")
]
TestOption = Annotated[Path | None, typer.Option("--test", help="Of a table: another one, declared public.")]

PublicOption = Annotated[
    Path | None,
    typer.Option("--public", help="Of a table: one more, declared public, whose rows join every step. Not --test."),
]


@dataclass(frozen=True, slots=True)
class TableOptions(TableFacts):
    """What the command line says about a table or a folder of images; each field is an option."""

    schema: SchemaOption = None
    target: TargetOption = None
    unit: UnitOption = None
    test: TestOption = None
    public: PublicOption = None
    wide: WideOptions = field(default_factory=WideOptions)


NO_TABLE = TableOptions()
