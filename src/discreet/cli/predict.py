"""`discreet predict`: the predictions of a published model for new rows."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer

from discreet.core.errors import InputError


def predict(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    data: Annotated[Path, typer.Argument(help="Rows: a .npy, .npz or .csv file of numbers, or an idx file of images.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write a .csv file instead of to the terminal.")] = None,
) -> None:
    """Predict new rows with a published model, once its files are found to be the certified ones."""
    from discreet.prediction import load
    from discreet.prediction.reading import read_rows

    predictor = load(folder)
    scores = predictor.scores(read_rows(data, predictor.spec.inputs))
    if predictor.spec.outputs == "classes":
        best = scores.softmax(dim=1).max(dim=1)
        lines = [
            f"{label},{share:.6g}" for label, share in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        header = "class,probability"
    else:
        rows = scores.reshape(len(scores), -1).tolist()
        lines = [",".join(f"{value:.9g}" for value in row) for row in rows]
        header = ",".join(f"output_{i}" for i in range(len(rows[0])))
    _write(out, [header, *lines])


def _write(out: Path | None, lines: list[str]) -> None:
    try:
        opened = nullcontext[TextIO](sys.stdout) if out is None else out.open("w", encoding="utf-8")
        with opened as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from None
