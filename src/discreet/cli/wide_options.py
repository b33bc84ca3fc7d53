"""The options of `discreet train` that stand in for a schema: which column is the text or the image, and its facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

TextOption = Annotated[
    str | None, typer.Option("--text", help="Of a table without schema: its column of texts, and the model sees it.")
]
ImageOption = Annotated[
    str | None, typer.Option("--image", help="The same of images: its column of paths, from where the table is.")
]
SizeOption = Annotated[str | None, typer.Option("--size", help="Pixels that images are made: 28x28.")]
ModeOption = Annotated[str | None, typer.Option("--mode", help="Of images: grey or rgb.")]
ClassesOption = Annotated[
    str | None, typer.Option("--classes", help="Of --target without schema: A,B,C [those of the --test table].")
]


@dataclass(frozen=True, slots=True)
class WideOptions:
    """The options of the command line that stand in for a schema."""

    text: str | None = None
    image: str | None = None
    size: str | None = None
    mode: str | None = None
    classes: str | None = None

    @property
    def given(self) -> list[str]:
        """The names of those that were given."""
        return [f"--{name}" for name in ("text", "image", "size", "mode", "classes") if getattr(self, name) is not None]
