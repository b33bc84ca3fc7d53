"""A text file as blocks of whole rows, in UTF-8. It may be compressed, in any encoding, and larger than memory.

pyarrow parses the blocks, but does not read the file: its streaming reader runs in a thread of its own, and a program
that ends meanwhile aborts.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from discreet.core.errors import InputError
from discreet.data.packed import Readable, Unpacked
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.not_text import refuse_binary
from discreet.data.tables.files.reading_errors import not_decoded

BLOCK = 4 << 20
"""Bytes of a file that are read at a time, and the most bytes of a row."""

_ZIP = b"PK\x03\x04"
_COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_SHEETS = ("[Content_Types].xml", "mimetype")
"""Members of a zip file that is really a spreadsheet."""

FILLED_LINE = re.compile(rb"[^\r\n]+")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True)
class TextRows:
    """Whole rows in UTF-8; `line` is the number of the first one in the file, from 1."""

    data: bytes
    line: int


def text_rows(path: Path, csv: CsvFormat) -> Iterator[TextRows]:
    """The rows of a file in blocks, without lines that are skipped and comments; the header is in the first block.

    `InputError` for a row that is longer than a block, and for what is not text in the encoding.
    """
    rest, line, first, decoder = b"", 1, True, codecs.getincrementaldecoder(csv.encoding)()
    with opened(path) as file:
        read = file.read(BLOCK)
        while read:
            following = file.read(BLOCK)
            ended = not following
            try:
                rest += decoder.decode(read, final=ended).encode()
            except UnicodeDecodeError as error:
                before = rest + error.object[: error.start].decode(csv.encoding, "ignore").encode()
                raise not_decoded(path, csv.encoding, line + lines_in(before)) from None
            read = following
            if first:
                rest, skipped = _without_top(rest.removeprefix(codecs.BOM_UTF8), csv)
                first, line = False, line + skipped
            cut = len(rest) if ended else _last_end(rest, csv)
            if not cut and len(rest) > BLOCK:
                size = f"{BLOCK >> 20} MB"
                raise InputError(
                    f"{path} has a row of more than {size}: a quote is not closed, or the delimiter is another"
                )
            if cut:
                _refuse_comments(path, rest[:cut], line, csv)
                yield TextRows(rest[:cut], line)
                line += lines_in(rest[:cut])
                rest = rest[cut:]


def lines_in(data: bytes) -> int:
    """The number of lines that end in `data`."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def row_lines(data: bytes, csv: CsvFormat) -> Iterator[int]:
    """The line at which each row of `data` begins, from 0; empty lines are no rows."""
    line = place = 0
    for start in _starts(data, csv):
        line += lines_in(data[place:start])
        place = start
        yield line


def _starts(data: bytes, csv: CsvFormat) -> Iterator[int]:
    if not csv.newlines:
        yield from (found.start() for found in FILLED_LINE.finditer(data))
        return
    start = place = 0
    field = _field(csv)
    while (found := field.match(data, place)) is not None:
        place = found.end()
        if found.group("end"):
            if found.start("end") > start:
                yield start
            start = place
    if start < len(data):
        yield start


@contextmanager
def opened(path: Path) -> Iterator[Readable]:
    """The bytes of a file, decompressed if it begins like a compressed one; of a zip file those of its only table."""
    with path.open("rb") as file:
        refuse_binary(path, file)
        begin = file.read(6)
        file.seek(0)
        if begin.startswith(_ZIP):
            with _unzipped(path, file) as inner:
                yield inner
            return
        opener = next((opener for mark, opener in _COMPRESSED.items() if begin.startswith(mark)), None)
        if opener is None:
            yield file
            return
        try:
            with opener(file) as inner:
                yield Unpacked(path, inner)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise InputError(f"{path} is compressed, and cannot be unpacked: {' '.join(str(error).split())}") from None


@contextmanager
def _unzipped(path: Path, file: IO[bytes]) -> Iterator[Readable]:
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX" not in name]
            if any(name in _SHEETS for name in names):
                raise InputError(f"{path} is a spreadsheet; name it .xlsx or .ods, or save the table as .csv")
            if names and all(name.endswith(".npy") for name in names):
                raise InputError(f"{path} holds arrays of NumPy; save a table as .csv or .parquet")
            if len(names) != 1:
                raise InputError(f"{path} has {len(names)} files in it; unpack it, and name the one with the table")
            with archive.open(names[0]) as inner:
                yield Unpacked(path, inner)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError(
            f"{path} is a spreadsheet or another zip file that cannot be read; save the table as .csv or as .parquet"
        ) from None


def _without_top(data: bytes, csv: CsvFormat) -> tuple[bytes, int]:
    """The data without the skipped lines at its top, and their number."""
    place = count = 0
    comment = None if csv.comment is None else csv.comment.encode()
    while place < len(data):
        line = _LINE.match(data, place)
        assert line is not None
        if count >= csv.skip and (comment is None or not line.group().startswith(comment)):
            break
        place, count = line.end(), count + 1
    return data[place:], count


def _refuse_comments(path: Path, data: bytes, line: int, csv: CsvFormat) -> None:
    """Refuse a row that begins like a comment, in a file without names at its top: it would be left out there, so the
    rows above would decide whether it counts. `line`: the number of the first line of `data`."""
    if csv.header or csv.comment is None:
        return
    mark = csv.comment.encode()
    found = re.search(rb"(?:\A|[\r\n])" + re.escape(mark), data)
    if found is not None:
        number = line + lines_in(data[: found.end() - len(mark)])
        raise InputError(
            f"{path}: line {number} begins with the comment mark {csv.comment!r}, and comments stand at the top "
            "alone; say how many lines to leave out there (csv: {skip: 1}) in the place of comment"
        )


def _last_end(data: bytes, csv: CsvFormat) -> int:
    """Where the last whole row of `data` ends; 0 if none does. (A carriage return at the very end may be half of a line
    end.)"""
    if not csv.newlines:
        end = data.rfind(b"\n") + 1
        return end or data.rfind(b"\r", 0, len(data) - 1) + 1
    end = place = 0
    field = _field(csv)
    while (found := field.match(data, place)) is not None:
        place = found.end()
        if found.group("end") and place < len(data):
            end = place
    return end


def ends_open(data: bytes, csv: CsvFormat) -> bool:
    """Whether the last line begins a quoted value that it does not end."""
    lines = data.rstrip(b"\r\n")
    last = lines[max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1 :]
    value = _value(csv)
    whole = value + rb"(?:" + _mark(csv.delimiter) + value + rb")*+"
    return csv.quote.encode() in last and re.fullmatch(whole, last) is None


def ends_within(data: bytes, csv: CsvFormat) -> bool:
    """Whether a quote is left open, or is closed with more text before the next delimiter or line end. In both cases
    rows may have become one value: an open quote takes in all that follows up to the next quote."""
    quote, mark = _mark(csv.quote), _mark(csv.delimiter)
    quoted = rb"Q(?:[^Q]|QQ)*+Q(?:(?!D)[ \t])*+".replace(b"D", mark).replace(b"Q", quote)
    plain = rb"(?!Q)(?:(?!D)[^\r\n])*+".replace(b"D", mark).replace(b"Q", quote)
    ends = rb"(?:" + mark + rb"|\r\n|\r|\n|\Z)"
    return re.fullmatch(rb"(?:(?:" + quoted + rb"|" + plain + rb")" + ends + rb")*+", data) is None


def _field(csv: CsvFormat) -> re.Pattern[bytes]:
    """One value with what ends it; `end` is the end of a row."""
    return re.compile(_value(csv) + rb"(?:" + _mark(csv.delimiter) + rb"|(?P<end>\r\n|\r|\n))")


def _value(csv: CsvFormat) -> bytes:
    """One value. A quote counts only where a value begins, and twice where it is part of it."""
    plain = rb"(?:(?!D)[^\r\n])*+".replace(b"D", _mark(csv.delimiter))
    return rb"(?:Q(?:[^Q]|QQ)*+Q|(?!Q))".replace(b"Q", _mark(csv.quote)) + plain


def _mark(text: str) -> bytes:
    return re.escape(text.encode())
