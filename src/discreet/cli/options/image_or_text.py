"""The options that stand in for a schema: the text or image column of a table, and its facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from discreet.jobs.tables.table_facts import WideFacts

_PANEL = "Images and texts, without a schema"

TextOption = Annotated[
    str | None, typer.Option("--text", help="Column of texts that the model reads.", rich_help_panel=_PANEL)
]
ImageOption = Annotated[
    str | None, typer.Option("--image", help="Column with the paths of images.", rich_help_panel=_PANEL)
]
SizeOption = Annotated[
    str | None, typer.Option("--size", help="Pixels to scale images to: 28x28.", rich_help_panel=_PANEL)
]
ModeOption = Annotated[str | None, typer.Option("--mode", help="Colours: grey or rgb.", rich_help_panel=_PANEL)]
ClassesOption = Annotated[
    str | None,
    typer.Option("--classes", help="Classes: A,B [those of --test or the sub-folders].", rich_help_panel=_PANEL),
]
VocabularyOption = Annotated[
    Path | None,
    typer.Option("--vocabulary", help="File with one word a line, that may be public.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True, slots=True)
class WideOptions(WideFacts):
    """The options of the command line that stand in for a schema."""

    text: TextOption = None
    image: ImageOption = None
    size: SizeOption = None
    mode: ModeOption = None
    classes: ClassesOption = None
    vocabulary: VocabularyOption = None
