"""Reading a table, block by block: a CSV file as text, other files with their own types."""

from __future__ import annotations

import csv as python_csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from discreet.core.errors import InputError
from discreet.data.tables.columns import Date
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.foreign import FOREIGN, foreign_table
from discreet.data.tables.files.reading_errors import said_plainly
from discreet.data.tables.files.text_rows import FILLED_LINE, TextRows, ends_open, ends_within, row_lines, text_rows
from discreet.data.tables.problems import Problems
from discreet.data.tables.schema import Schema

MOST_COLUMNS = 10_000
"""A table with more columns is refused."""

_ROWS = 1 << 16
"""Rows of a Parquet file that are read at a time."""

_TEXT, _PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
PACKED = ("", ".gz", ".zip", ".bz2", ".xz")
_OTHER_DELIMITERS = ";\t|,"
_SHOWN = 60


def is_table(name: str) -> bool:
    """Whether a file is a table, by its name."""
    texts = tuple(text + packed for text in _TEXT for packed in PACKED)
    return name.lower().endswith((*texts, ".zip", *_PARQUET, *FOREIGN))


def is_text(path: Path) -> bool:
    """Whether the file is read as CSV: its name has no suffix of another kind of table."""
    return not path.name.lower().endswith((*_PARQUET, *FOREIGN))


def blocks(
    path: Path, schema: Schema, wanted: Sequence[str], problems: Problems | None = None
) -> Iterator[pa.RecordBatch]:
    """The `wanted` columns of a table, in order, in blocks; of a CSV file every value is text.

    `InputError` if the file cannot be read, or if its columns are not those of the schema. Rows of the wrong length are
    left out and recorded in `problems`; without `problems`, the first one is an `InputError`.
    """
    faults = problems or Problems(path, most=1)
    with said_plainly(path):
        if is_text(path):
            yield from _of_csv(path, schema, wanted, faults)
        elif path.name.lower().endswith(_PARQUET):
            yield from _of_parquet(path, schema, wanted)
        else:
            table = foreign_table(path, schema.csv.decimal, _days(schema))
            _check_names(path, schema, table.column_names, wanted)
            yield from table.select(list(wanted)).combine_chunks().to_batches(max_chunksize=_ROWS)
    if problems is None:
        faults.check()


def _days(schema: Schema) -> dict[str, str | None]:
    """For each column that a schema reads, the format of its days; None if it is no column of days."""
    read = {name: column for name, column in schema.columns.items() if column.type != "ignore"}
    return {name: (column.format or "%Y-%m-%d") if isinstance(column, Date) else None for name, column in read.items()}


def first_rows(path: Path, csv: CsvFormat) -> pa.Table:
    """The first rows of a table: of a CSV file as text, in columns with different names."""
    with said_plainly(path):
        if not is_text(path):
            packed = path.name.lower().endswith(_PARQUET)
            found = pa_parquet.read_schema(path).empty_table() if packed else foreign_table(path, csv.decimal, {})
            _check_width(path, found.column_names)
            return found
        first = next(text_rows(path, csv), None)
        names, rest = _header(first or TextRows(b"", 1), csv)
        if not names:
            raise InputError(f"{path} is empty; give a table with at least one row")
        _check_width(path, names)
        return _parsed(rest, csv, names, names, Problems(path))


def _check_width(path: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"{path} has {len(names):,} columns, of which at most {MOST_COLUMNS:,} are read; leave some out"
        )


def column_names(path: Path, csv: CsvFormat) -> list[str]:
    """The names of the columns of a table."""
    return list(first_rows(path, csv).column_names)


def check_columns(path: Path, schema: Schema) -> None:
    """Refuse a CSV or Parquet file whose columns are not those of the schema. No row is read, and a file whose names
    cannot be read is left to what reads rows; so are files of other kinds, which are read whole."""
    try:
        with said_plainly(path):
            if path.name.lower().endswith(_PARQUET):
                names = pa_parquet.read_schema(path).names
            elif is_text(path) and schema.csv.header:
                names = _header(next(text_rows(path, schema.csv), TextRows(b"", 1)), schema.csv)[0]
            else:
                return
    except InputError:
        return
    _check_names(path, schema, names, schema.read)


def _of_parquet(path: Path, schema: Schema, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with pa_parquet.ParquetFile(path) as file:
        _check_names(path, schema, file.schema_arrow.names, wanted)
        for block in file.iter_batches(batch_size=_ROWS, columns=list(wanted), use_threads=False):
            yield block.select(list(wanted))


def _of_csv(path: Path, schema: Schema, wanted: Sequence[str], problems: Problems) -> Iterator[pa.RecordBatch]:
    csv, names = schema.csv, None
    for rows in text_rows(path, csv):
        if names is None:
            names, rows = _header(rows, csv) if csv.header else (list(schema.columns), rows)
            if not names:
                break
            _check_names(path, schema, names, wanted)
        if rows.data.strip(b"\r\n"):
            yield from _parsed(rows, csv, names, wanted, problems).combine_chunks().to_batches()
        if problems.full:
            return
    if not names:
        raise InputError(f"{path} is empty; give a table with at least one row")


def _header(rows: TextRows, csv: CsvFormat) -> tuple[list[str], TextRows]:
    """The different names of the columns, and the rows below. Without a header: column 1, column 2 and so on."""
    text = io.StringIO(rows.data.decode(), newline="")
    lines = python_csv.reader(text, delimiter=csv.delimiter, quotechar=csv.quote)
    found = next((line for line in lines if line), [])
    if not csv.header:
        return [f"column {place}" for place in range(1, len(found) + 1)], rows
    names = [name.strip() if csv.trim else name for name in found]
    rest = text.read().encode()
    return different(names), TextRows(rest, rows.line + lines.line_num)


def different(names: Sequence[str]) -> list[str]:
    """Different names of columns: a second `age` is `age.1`, one without a name `column 3` by its place."""
    found: dict[str, None] = {}
    counts: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        name = name or f"column {place}"
        one, count = name, counts.get(name, 0)
        while one in found:
            count += 1
            one = f"{name}.{count}"
        counts[name] = count
        found[one] = None
    return list(found)


def _parsed(
    rows: TextRows, csv: CsvFormat, names: Sequence[str], wanted: Sequence[str], problems: Problems
) -> pa.Table:
    """The `wanted` columns as text. Rows of another length are left out and noted."""
    wrong: list[pa_csv.InvalidRow] = []

    def note(row: pa_csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    if not csv.newlines and ends_open(rows.data, csv):
        raise InputError(f"{problems.path}: {_OPEN_QUOTE}")
    if csv.newlines and ends_within(rows.data, csv):
        raise InputError(f"{problems.path}: {_QUOTE_WITHIN}")
    found = pa_csv.read_csv(
        pa.py_buffer(rows.data),
        pa_csv.ReadOptions(use_threads=False, block_size=len(rows.data) + 1, column_names=list(names)),
        pa_csv.ParseOptions(
            delimiter=csv.delimiter, quote_char=csv.quote, newlines_in_values=csv.newlines, invalid_row_handler=note
        ),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=list(wanted), strings_can_be_null=False
        ),
    )
    starts = row_lines(rows.data, csv) if wrong else iter(())
    above = 0
    for row in wrong:
        if problems.full:
            break
        line = next(islice(starts, (row.number or 1) - above - 1, None), 0)
        above = row.number or 1
        problems.add(_other_length(row, rows.line + line, csv))
    # A quote that is not closed would merge the following lines into one value, and lose their rows.
    if not csv.newlines and found.num_rows + len(wrong) != len(FILLED_LINE.findall(rows.data)):
        raise InputError(f"{problems.path}: {_OPEN_QUOTE}")
    return found


_OPEN_QUOTE = (
    "a value runs over several lines: a quote is not closed; close it, or if values have line breaks, say "
    "csv: {newlines: true} in the schema (discreet schema --newlines)"
)

_QUOTE_WITHIN = (
    "a quote is not closed, or is closed within a value: rows may have been taken for one value; close it, and write a "
    "quote within a quoted value twice"
)


def _check_names(path: Path, schema: Schema, found: Sequence[str], wanted: Sequence[str]) -> None:
    _check_width(path, found)
    twice = [name for name, count in Counter(found).items() if count > 1]
    if twice:
        raise InputError(f"{path} has two columns {_short(twice[0])}; give each a name of its own")
    missing = [name for name in wanted if name not in found]
    if missing and len(found) == 1 and is_text(path):
        other = [mark for mark in _OTHER_DELIMITERS if mark in found[0] and mark != schema.csv.delimiter]
        if other:
            raise InputError(
                f"{path} has one column, {_short(found[0])}; if values are parted by {other[0]!r}, say "
                f"csv: {{delimiter: {other[0]!r}}} in a schema; `discreet schema` finds out"
            )
    if missing:
        more = "" if len(missing) == 1 else f" (and {len(missing) - 1} more)"
        raise InputError(
            f"{path} has no column {_short(missing[0])}{more}, which the schema or an option names; it has "
            f"{', '.join(found)[:200]}"
        )
    known = {*schema.columns, schema.unit_column, schema.row_id}
    unknown = [name for name in found if name not in known]
    if unknown and schema.others == "refuse":
        raise InputError(
            f"{path} has a column {_short(unknown[0])} that the schema does not name; declare it (type: ignore leaves "
            "it out), or say others: ignore"
        )


def _other_length(row: pa_csv.InvalidRow, line: int, csv: CsvFormat) -> str:
    """The fault of a row that begins at a line of the file. What the row says is somebody's data, and is not shown."""
    count = f"{row.actual_columns} value{'s' * (row.actual_columns != 1)}"
    return (
        f"line {line} has {count} instead of {row.expected_columns}; give it {row.expected_columns}, or check the "
        f"delimiter ({csv.delimiter!r}) and the quotes"
    )


def _short(text: Any) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
