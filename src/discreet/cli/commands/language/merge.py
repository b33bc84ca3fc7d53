"""`discreet merge`: published adapters, added to the weights of their base model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.certificate.files import PROOF
from discreet.core.errors import plain


def merge(
    folder: Annotated[Path, typer.Argument(help="A published folder with adapters.")],
    model: Annotated[Path, typer.Option("--model", help="Folder with the base model and its tokenizer.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; it must not exist.")],
) -> None:
    """Write one model of published adapters and their base, as transformers loads it, once they are verified."""
    from discreet.cli.loading import loading

    with loading():
        from discreet.jobs.language.merging import merge as merged

    merged(folder, model, out)
    said = f"{out}: a model of transformers; its proof is in {out / PROOF}, and merging costs nothing more"
    typer.echo(plain(said))
