"""`discreet predict`: the predictions of a published model for new rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from discreet.certificate.files import CERTIFICATE, read
from discreet.core.disk import write_output
from discreet.core.errors import InputError, plain

if TYPE_CHECKING:
    from discreet.prediction.answers import Answers


_OTHER_KINDS = (".xlsx", ".xlsm", ".xls", ".ods", ".sav", ".dta", ".feather", ".gz", ".zip")
"""Endings of files that no program would open if they held lines of text."""

_LINES = (".json", ".jsonl", ".ndjson")


def predict(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    data: Annotated[
        Path,
        typer.Argument(help="Rows: a table, a folder of images, a .npy, .npz or .csv file of numbers, an idx file."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a .csv or .parquet file instead of to the terminal.")
    ] = None,
    keep: Annotated[str, typer.Option("--keep", help="Columns of the table to copy beside the predictions: A,B.")] = "",
    model: Annotated[
        Path | None, typer.Option("--model", help="Of a language model: folder with the base model and its tokenizer.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each row, a line each.")] = False,
) -> None:
    """Predict new rows with a published model, once its files are found to be the certified ones."""
    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out} exists already; name another file with --out, or replace it with --overwrite")
    ending = "" if out is None else out.suffix.lower()
    parquet = ending in (".parquet", ".pq")
    if parquet and as_json:
        raise InputError("--json writes text; name a file that does not end in .parquet, or leave --json out")
    if ending in _OTHER_KINDS:
        raise InputError(
            f"predictions are not written as {ending}; name a .csv file, which spreadsheets open, or .parquet"
        )
    if ending in _LINES and not as_json:
        raise InputError(
            f"a {ending} file holds JSON, a line for each row; add --json, or name a .csv or .parquet file"
        )
    kept = [name.strip() for name in keep.split(",") if name.strip()]
    read(folder / CERTIFICATE)  # what is no published folder is said before PyTorch is loaded
    from discreet.cli.show.predictions import as_csv
    from discreet.cli.show.predictions import as_json as objects
    from discreet.prediction import load
    from discreet.prediction.answers import answers

    said = answers(load(folder), data, kept) if model is None else _of_texts(folder, model, data, kept)
    if out is not None and parquet:
        import pyarrow as pa
        import pyarrow.parquet as pa_parquet

        _write(out, lambda file: pa_parquet.write_table(pa.table(said.columns), file))
        return
    lines = objects(said) if as_json else as_csv(said)
    if out is None:
        _print(lines)
    else:
        _write(out, lambda file: file.writelines(f"{line}\n".encode() for line in lines))


def _of_texts(folder: Path, model: Path, data: Path, keep: Sequence[str]) -> Answers:
    """The classes of texts by a language model, once it is verified."""
    from discreet.cli.loading import loading

    with loading():
        from discreet.jobs.language.text_predictions import predictions

    return predictions(folder, model, data, keep)


def _write(out: Path, write: Callable[[IO[bytes]], object]) -> None:
    write_output(out, write, replace=True, advice="name another file with --out")


def _print(lines: Iterable[str]) -> None:
    try:
        shown = map(plain, lines) if sys.stdout.isatty() else lines
        sys.stdout.writelines(f"{line}\n" for line in shown)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads (head, say) has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
