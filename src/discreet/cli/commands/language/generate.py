"""`discreet generate`: texts that a published language model writes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from discreet.certificate.files import CERTIFICATE, read
from discreet.core.disk import write_output
from discreet.core.errors import InputError, plain
from discreet.core.rounding import delta_up, places_up


def generate(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    model: Annotated[Path, typer.Option("--model", help="Folder with the base model and its tokenizer.")],
    prompt: Annotated[str, typer.Option("--prompt", help="What the texts begin with; public.")],
    chat: Annotated[
        bool, typer.Option("--chat", help="Answers to the prompt, put into the chat template as a user's message.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", help="How many texts.", min=1)] = 1,
    length: Annotated[
        int | None,
        typer.Option("--length", help="The most new tokens of a text [64, or what the prompt leaves room for].", min=1),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="Below 1 likely words are likelier.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="For the same texts again.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write a .csv file instead of to the terminal.")] = None,
) -> None:
    """Write texts with a published language model, once it is verified. They give away no more than the model."""
    from discreet.cli.loading import loading

    if out is not None and (out.exists() or out.suffix.lower() != ".csv"):
        raise InputError(f"{out} exists already, or is no .csv file; name another one with --out")
    if out is not None and not out.absolute().parent.is_dir():  # and not when all texts are written
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; name another file with --out")
    read(folder / CERTIFICATE)  # what is no published folder is said before PyTorch is loaded
    with loading():
        from discreet.jobs.language.generation import Writer

    writer = Writer.of(folder, model)
    epsilon = places_up(writer.epsilon)
    texts = writer.write(prompt, rows, length=length, temperature=temperature, seed=seed, chat=chat)
    typer.echo(
        f"post-processing of a model with epsilon {epsilon} at delta {delta_up(writer.delta)}: no further cost",
        err=True,
    )
    if out is None:
        for text in texts:
            typer.echo(plain(" ".join(text.split())))
        return
    table = io.StringIO()
    lines = csv.writer(table)
    lines.writerow(["text", "epsilon", "delta"])
    lines.writerows([text, float(epsilon), writer.delta] for text in texts)
    write_output(out, table.getvalue().encode(), replace=False, advice="name another file")
