"""Finds out from its beginning how a CSV file is written: encoding, delimiter, decimal and thousands mark.

Nothing but the format is kept. It is public, as the names of the columns are.
"""

from __future__ import annotations

import codecs
import csv as python_csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.text_rows import opened

FOUND_OUT = ("encoding", "delimiter", "decimal", "thousands")
"""The fields of a format that are found out."""

_BEGIN = 1 << 16
_LINES = 200
_DELIMITERS = ",;\t|"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WINDOWS = re.compile(rb"[\x80-\x9f]")
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_THOUSANDS = ".,'\u2019 \u00a0\u202f"


def found_format(
    path: Path, given: CsvFormat, asked: Sequence[str], numeric: Callable[[int, str], bool] = lambda *_: True
) -> CsvFormat:
    """The format of a CSV file: the fields that are `asked` are found out, the others are those `given`.

    Fields that the beginning does not tell stay as given. `numeric`: whether a column, by its place and the name above
    it, may tell the decimal and thousands marks. `InputError` if the file cannot be opened.
    """
    with opened(path) as file:
        begin = file.read(_BEGIN)
    changes: dict[str, object] = {}
    if "encoding" in asked:
        changes["encoding"] = encoding_of(begin)
    known = given.model_copy(update=changes)
    lines = _lines(begin, known)
    if "delimiter" in asked:
        changes["delimiter"] = _delimiter(lines, known.quote) or known.delimiter
    known = given.model_copy(update=changes)
    columns = list(zip(*_rows(lines, known), strict=False))
    telling = [column[known.header :] for place, column in enumerate(columns) if numeric(place, column[0].strip())]
    decimal, thousands = _marks(telling)
    if "decimal" in asked and decimal is not None:
        changes["decimal"] = decimal
    point = str(changes.get("decimal", given.decimal))
    if "thousands" in asked and thousands not in (None, point):
        changes["thousands"] = thousands
    return CsvFormat.model_validate(given.model_dump() | changes)


def encoding_of(begin: bytes) -> str:
    """The encoding of a file that begins like this, by its name in Python."""
    for mark, name in _BYTE_ORDER_MARKS:
        if begin.startswith(mark):
            return name
    if begin.count(0) * 4 > len(begin):  # a half of UTF-16 that is mostly ASCII is zeros
        return "utf-16-le" if begin[1::2].count(0) > begin[::2].count(0) else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
        return "utf-8"
    except UnicodeDecodeError:
        return "cp1252" if _WINDOWS.search(begin) and not _NOT_WINDOWS.search(begin) else "iso8859-1"


def _lines(begin: bytes, csv: CsvFormat) -> list[str]:
    text = codecs.getincrementaldecoder(csv.encoding)("replace").decode(begin).removeprefix("\ufeff")
    lines = io.StringIO(text, newline=None).read().split("\n")[csv.skip :]
    whole = lines[:-1] if len(begin) == _BEGIN else lines
    while csv.comment is not None and whole and whole[0].startswith(csv.comment):
        del whole[0]
    return [line for line in whole[:_LINES] if line.strip()]


def _delimiter(lines: Sequence[str], quote: str) -> str | None:
    """The delimiter that splits every line into as many values as the first, and into most; None if none splits the
    first."""
    scores = {}
    for mark in _DELIMITERS:
        counts = [len(row) for row in _parted(lines, mark, quote)]
        if counts and counts[0] > 1:
            scores[mark] = (counts.count(counts[0]) / len(counts), counts[0])
    return max(scores, key=lambda mark: scores[mark]) if scores else None


def _rows(lines: Sequence[str], csv: CsvFormat) -> list[list[str]]:
    rows = list(_parted(lines, csv.delimiter, csv.quote))
    return [row for row in rows if len(row) == len(rows[0])]


def _parted(lines: Sequence[str], delimiter: str, quote: str) -> Iterator[list[str]]:
    try:
        yield from python_csv.reader(lines, delimiter=delimiter, quotechar=quote)
    except python_csv.Error:
        return


def _marks(columns: Sequence[Sequence[str]]) -> tuple[str | None, str | None]:
    """The decimal and the thousands mark, each None where no column tells."""
    found: Counter[tuple[str | None, str | None]] = Counter()
    open_to_doubt = set[str]()
    for column in columns:
        values = [value.strip().lstrip("<>=≤≥+-") for value in column if any(sign.isdigit() for sign in value)]
        either = next((mark for mark in ".," if _either(values, mark)), None)
        if either is not None:
            open_to_doubt.add(either)
        else:
            found.update(_written(values))
    decimals = [mark for mark, _ in found if mark is not None]
    if len(set(decimals)) > 1:
        return None, None  # one column says this, another that
    decimal = decimals[0] if decimals else None
    groups = {mark for _, mark in found if mark is not None and mark != decimal}
    if not groups and decimal is not None:
        groups = open_to_doubt - {decimal}
    return decimal, groups.pop() if len(groups) == 1 else None


def _either(values: Sequence[str], mark: str) -> bool:
    """Whether a column's numbers are ambiguous: in 1.234 the mark may separate thousands or decimals."""
    number = re.compile(rf"\d+|[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}")
    return any(mark in value for value in values) and all(number.fullmatch(value) for value in values)


def _written(values: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """The marks that a column of numbers uses, unless `_either`."""
    for decimal in ".,":
        point = re.escape(decimal)
        plain = re.compile(rf"\d*{point}?\d+")
        if values and all(plain.fullmatch(value) for value in values) and any(decimal in value for value in values):
            yield decimal, None
            return
        for mark in _THOUSANDS.replace(decimal, ""):
            grouped = re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{point}\d+)?")
            if any(grouped.fullmatch(value) for value in values) and all(
                grouped.fullmatch(value) or plain.fullmatch(value) for value in values
            ):
                yield (decimal if any(decimal in value for value in values) else None), mark
                return
