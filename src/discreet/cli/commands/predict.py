"""`discreet predict`: the predictions of a published model for new rows."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from discreet.core.errors import InputError, plain

if TYPE_CHECKING:
    from torch import Tensor

    from discreet.core.array_types import Array
    from discreet.data.tables import Encoder
    from discreet.prediction import Predictor


def predict(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    data: Annotated[
        Path,
        typer.Argument(help="Rows: a table, a folder of images, a .npy, .npz or .csv file of numbers, an idx file."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Write a .csv file instead of to the terminal.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each row, a line each.")] = False,
) -> None:
    """Predict new rows with a published model, once its files are found to be the certified ones."""
    from discreet.prediction import load
    from discreet.prediction.row_files import read_rows

    predictor = load(folder)
    if predictor.spec.table is not None:
        header, lines = _of_table(predictor, data)
    else:
        header, lines = _of_scores(predictor.scores(read_rows(data, predictor.spec.inputs)), predictor.spec.outputs)
    _write(out, _as_json(predictor, header, lines) if as_json else [header, *lines])


def _of_scores(scores: Tensor, outputs: str | None) -> tuple[str, list[str]]:
    if outputs == "classes":
        best = scores.softmax(dim=1).max(dim=1)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return "class,probability", [f"{label},{share:.6g}" for label, share in pairs]
    rows = scores.reshape(len(scores), -1).tolist()
    lines = [",".join(f"{value:.9g}" for value in row) for row in rows]
    return ",".join(f"output_{i}" for i in range(len(rows[0]))), lines


def _of_table(predictor: Predictor, path: Path) -> tuple[str, list[str]]:
    """A line for each row; empty fields for rows that a treatment of the schema drops."""
    from discreet.data.tables import image_paths
    from discreet.prediction import predict_table

    encoder, found = predict_table(predictor, path)
    names = list(encoder.classes)
    paths = image_paths(path, encoder)
    if paths is not None:
        return _of_images(paths, encoder, found)
    if encoder.task == "classes":
        best = found.argmax(axis=1)
        lines = [
            [names[place], f"{row[place]:.6g}"] if row[0] == row[0] else ["", ""]
            for place, row in zip(best, found, strict=True)
        ]
        return _line([*encoder.schema.target, "probability"]), [_line(line) for line in lines]
    rows = [[f"{value:.9g}" if value == value else "" for value in row] for row in found.tolist()]
    return _line(names), [_line(row) for row in rows]


def _of_images(paths: list[str], encoder: Encoder, found: Array) -> tuple[str, list[str]]:
    """The path of each image; of classes, which one; and a probability for each class or label, or the amount."""
    names, classes = list(encoder.classes), encoder.task == "classes"
    lines = []
    for path, row in zip(paths, found, strict=True):
        if row[0] == row[0]:
            best = [names[row.argmax()]] if classes else []
            lines.append(_line([path, *best, *(f"{value:.6g}" for value in row)]))
        else:
            lines.append(_line([path, *[""] * (classes + len(names))]))
    head = [*encoder.schema.features, *(encoder.schema.target if classes else ()), *names]
    return _line(head), lines


def _line(fields: list[str]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(fields)
    return file.getvalue()


def _as_json(predictor: Predictor, header: str, lines: list[str]) -> list[str]:
    """The same as objects. What is not a class of a table by its name is a number; empty fields are null."""
    table = predictor.spec.table
    schema = {} if table is None or predictor.spec.outputs != "classes" else table["schema"]
    texts = {*schema.get("columns", ()), *schema.get("target", ())}
    names = next(csv.reader([header]))
    rows = csv.reader(lines)
    return [json.dumps({n: _value(v, text=n in texts) for n, v in zip(names, row, strict=True)}) for row in rows]


def _value(field: str, *, text: bool) -> str | int | float | None:
    if text or field == "":
        return field or None
    return int(field) if field.isdigit() else float(field)


def _write(out: Path | None, lines: list[str]) -> None:
    try:
        opened = nullcontext[TextIO](sys.stdout) if out is None else out.open("w", encoding="utf-8")
        with opened as file:
            shown = map(plain, lines) if out is None and sys.stdout.isatty() else lines
            file.writelines(f"{line}\n" for line in shown)
            file.flush()
    except BrokenPipeError:  # whoever reads (head, say) has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from None
