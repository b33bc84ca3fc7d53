"""Predictions as text: a .csv file, or one JSON object a line."""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections.abc import Iterator

from discreet.cli.options.json_output import encoded
from discreet.prediction.answers import Answers


def as_csv(said: Answers) -> Iterator[str]:
    """A header, and a line for each row; empty fields for rows that a treatment of the schema drops."""
    yield _line(said.columns)
    for row in _rows(said):
        yield _line(["" if value is None else str(value) for value in row])


def as_json(said: Answers) -> Iterator[str]:
    """The same figures as objects; null for rows that a treatment of the schema drops."""
    for row in _rows(said):
        yield encoded(dict(zip(said.columns, row, strict=True)), ascii_only=False)


def _rows(said: Answers) -> Iterator[tuple[object, ...]]:
    columns = [[_figure(value, said.digits) for value in column.to_pylist()] for column in said.columns.values()]
    return zip(*columns, strict=True)


def _figure(value: object, digits: int) -> object:
    if isinstance(value, datetime.date):
        return str(value)
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def _line(fields: object) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(fields)  # type: ignore[arg-type]
    return file.getvalue()
