"""The options about tables and folders of images, for all commands that take them."""

from __future__ import annotations

import typer

from discreet.cli.options.run import DATA, PRIVACY
from discreet.cli.options.shared import with_options
from discreet.jobs.tables.table_facts import TableFacts

_WIDE = "Images and texts, without a schema"

with_table = with_options(
    TableFacts,
    {
        "schema": typer.Option(
            "--schema", help="What the table's columns are (.yaml); `discreet schema` drafts it.", rich_help_panel=DATA
        ),
        "target": typer.Option(
            "--target", help="Column to predict; or several true/false labels: A,B.", rich_help_panel=DATA
        ),
        "unit": typer.Option(
            "--unit", help="Column that says whose a row is; or row: one row a person.", rich_help_panel=PRIVACY
        ),
        "test": typer.Option("--test", help="Table that may be public, to measure the model on.", rich_help_panel=DATA),
        "public": typer.Option(
            "--public", help="Public table whose rows join every step, unprotected.", rich_help_panel=DATA
        ),
        "text": typer.Option("--text", help="Column of texts that the model reads.", rich_help_panel=_WIDE),
        "image": typer.Option("--image", help="Column with the paths of images.", rich_help_panel=_WIDE),
        "size": typer.Option("--size", help="Pixels to scale images to: 28x28.", rich_help_panel=_WIDE),
        "mode": typer.Option("--mode", help="Colours: grey or rgb.", rich_help_panel=_WIDE),
        "classes": typer.Option(
            "--classes", help="Classes: A,B [those of --test or the sub-folders].", rich_help_panel=_WIDE
        ),
        "vocabulary": typer.Option(
            "--vocabulary", help="File with one word a line, that may be public.", rich_help_panel=_WIDE
        ),
    },
)
"""Gives `command(..., options: TableFacts, ...)` an option for each of these facts in its place."""
