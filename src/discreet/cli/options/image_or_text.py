"""The options that stand in for a schema: which column of a table is the text or the image, and its facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from discreet.jobs.table_facts import WideFacts

TextOption = Annotated[
    str | None, typer.Option("--text", help="Of a table without schema: its column of texts, and the model sees it.")
]
ImageOption = Annotated[
    str | None, typer.Option("--image", help="The same of images: its column of paths, from where the table is.")
]
SizeOption = Annotated[str | None, typer.Option("--size", help="Pixels that images are made: 28x28.")]
ModeOption = Annotated[str | None, typer.Option("--mode", help="Of images: grey or rgb.")]
ClassesOption = Annotated[
    str | None, typer.Option("--classes", help="Without schema: A,B,C [those of --test or --public; the sub-folders].")
]
VocabularyOption = Annotated[
    Path | None, typer.Option("--vocabulary", help="Of --text: a file with a word on each line, declared public.")
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
