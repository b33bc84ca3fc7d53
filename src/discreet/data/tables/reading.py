"""Reading a table, block by block: CSV as text, Parquet with its own types. A file may be larger than memory."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from discreet.core.errors import InputError
from discreet.data.tables.schema import CsvFormat, Schema

BLOCK = 4 << 20
"""Bytes of a CSV file that are taken at a time, and the most that one of its rows may have."""

_ROWS = 1 << 16
"""Rows of a Parquet file that are taken at a time."""

_TEXT, _PARQUET = (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".parquet", ".pq")
_BEGIN = 1 << 16
_ZIP = b"PK\x03\x04"
_OTHER_DELIMITERS = ";\t|,"
_SHOWN = 60


def is_table(name: str) -> bool:
    """Whether a file is a table, by its name."""
    return name.lower().endswith((*_TEXT, *_PARQUET))


def is_parquet(path: Path) -> bool:
    """Whether a table is read as Parquet, by its name; all others are read as CSV."""
    return path.suffix.lower() in _PARQUET


def blocks(path: Path, schema: Schema, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The `wanted` columns of a table, in order, in blocks; of a CSV file every value is text.

    `InputError` if the file cannot be read, and if its columns are not those of the schema.
    """
    with _said_plainly(path):
        yield from _of_parquet(path, schema, wanted) if is_parquet(path) else _of_csv(path, schema, wanted)


def header(path: Path, csv: CsvFormat) -> pa.Schema:
    """Names and types of the columns of a table. Those of a CSV file are guessed from its first block."""
    with _said_plainly(path):
        if is_parquet(path):
            return pa_parquet.read_schema(path)
        _refuse_other_files(path, csv)
        return _first_block(path, csv)


def _of_parquet(path: Path, schema: Schema, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with pa_parquet.ParquetFile(path) as file:
        _check_names(path, schema, file.schema_arrow.names, wanted)
        for block in file.iter_batches(batch_size=_ROWS, columns=list(wanted), use_threads=False):
            yield block.select(list(wanted))


def _of_csv(path: Path, schema: Schema, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    csv = schema.csv
    _refuse_other_files(path, csv)
    names = list(_first_block(path, csv).names) if csv.header else list(schema.columns)
    _check_names(path, schema, names, wanted)
    # An open quote is seen where it ends: in any column, unless values may have line breaks.
    read = [*wanted, *(name for name in names if name not in wanted and not csv.newlines)]
    wrong: list[pa_csv.InvalidRow] = []
    converting = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(read, pa.string()), include_columns=read, strings_can_be_null=False
    )
    try:
        with pa_csv.open_csv(_source(path), _how_read(path, csv, names), _how_parsed(csv, wrong), converting) as blocks:
            for block in blocks:
                if not csv.newlines:
                    _refuse_open_quotes(path, block)
                yield block.select(list(wanted))
    except pa.ArrowInvalid:
        if wrong:
            raise InputError(_other_length(path, wrong[0], csv)) from None
        raise


def _refuse_other_files(path: Path, csv: CsvFormat) -> None:
    """A spreadsheet, or text in another encoding, by how the file begins: the parser would say less of it."""
    with _source(path) as file:
        begin = file.read(_BEGIN)
    if begin.startswith(_ZIP):
        raise InputError(f"{path} is a spreadsheet or another zip file; save the table as .csv, or as .parquet")
    codecs.getincrementaldecoder(csv.encoding)().decode(begin)


def _first_block(path: Path, csv: CsvFormat) -> pa.Schema:
    wrong: list[pa_csv.InvalidRow] = []
    with pa_csv.open_csv(_source(path), _how_read(path, csv, None), _how_parsed(csv, wrong, skip=True)) as blocks:
        found: pa.Schema = blocks.schema
    return found


def _how_read(path: Path, csv: CsvFormat, names: Sequence[str] | None) -> pa_csv.ReadOptions:
    skipped = csv.skip + _comments(path, csv)
    generated = {"autogenerate_column_names": not csv.header} if names is None else {"column_names": list(names)}
    if names is not None and csv.header:
        skipped += 1
    return pa_csv.ReadOptions(
        use_threads=False, block_size=BLOCK, skip_rows=skipped, encoding=csv.encoding, **generated
    )


def _how_parsed(csv: CsvFormat, wrong: list[Any], *, skip: bool = False) -> pa_csv.ParseOptions:
    """`wrong` gets rows with another number of values than the first; with `skip` they are left out."""

    def note(row: pa_csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip" if skip else "error"

    return pa_csv.ParseOptions(
        delimiter=csv.delimiter, quote_char=csv.quote, newlines_in_values=csv.newlines, invalid_row_handler=note
    )


def _source(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="detect")


def _comments(path: Path, csv: CsvFormat) -> int:
    """How many lines at the top are comments, after those that are skipped."""
    if csv.comment is None:
        return 0
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding=csv.encoding, newline="") as file:
        for _ in range(csv.skip):
            file.readline()
        count = 0
        while file.readline().startswith(csv.comment):
            count += 1
    return count


def _check_names(path: Path, schema: Schema, found: Sequence[str], wanted: Sequence[str]) -> None:
    twice = [name for name in found if list(found).count(name) > 1]
    if twice:
        raise InputError(f"{path} has two columns {_short(twice[0])}; give each a name of its own")
    missing = [name for name in wanted if name not in found]
    if missing and len(found) == 1 and not is_parquet(path):
        other = [mark for mark in _OTHER_DELIMITERS if mark in found[0] and mark != schema.csv.delimiter]
        if other:
            raise InputError(
                f"{path} has one column, {_short(found[0])}; if values are parted by {other[0]!r}, say "
                f"csv: {{delimiter: {other[0]!r}}} in the schema"
            )
    if missing:
        raise InputError(
            f"{path} has no column {_short(missing[0])}, which the schema names; it has {', '.join(found)[:200]}"
        )
    known = {*schema.columns, schema.unit_column, schema.row_id}
    unknown = [name for name in found if name not in known]
    if unknown and schema.others == "refuse":
        raise InputError(
            f"{path} has a column {_short(unknown[0])} that the schema does not name; declare it (type: ignore leaves "
            "it out), or say others: ignore"
        )


def _refuse_open_quotes(path: Path, block: pa.RecordBatch) -> None:
    """A quote that is not closed would make one value of the rest of the file, and lose its rows."""
    for name, column in zip(block.schema.names, block.columns, strict=True):
        if pc.any(pc.match_substring_regex(column, "[\r\n]")).as_py():
            raise InputError(
                f"{path}: a value of column {_short(name)} runs over several lines: a quote is not closed; close it, "
                "or say csv: {newlines: true} if values have line breaks"
            )


def _other_length(path: Path, row: pa_csv.InvalidRow, csv: CsvFormat) -> str:
    line = "a line" if row.number is None else f"line {row.number}"
    return (
        f"{path}: {line} has {row.actual_columns} values instead of {row.expected_columns}: {_short(row.text)}; check "
        f"the delimiter ({csv.delimiter!r}) and the quotes"
    )


@contextmanager
def _said_plainly(path: Path) -> Iterator[None]:
    """Errors of the file system and of pyarrow as one line that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no table {path}; check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(_not_decoded(path, str(error))) from None
    except pa.ArrowInvalid as error:
        raise InputError(_plain(path, str(error))) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None


def _plain(path: Path, message: str) -> str:
    if "Empty CSV" in message:
        return f"{path} is empty; give a table with at least one row"
    if "UTF8" in message or "UTF-8" in message:
        return _not_decoded(path, "")
    if "straddling" in message or "block" in message.lower():
        return f"{path} has a row of more than {BLOCK >> 20} MB: a quote is not closed, or the delimiter is another"
    return f"cannot read {path}: {' '.join(message.split())[:200]}"


def _not_decoded(path: Path, why: str) -> str:
    shown = f" ({why[:80]})" if why else ""
    return f"{path} is not text in UTF-8{shown}; say how it is encoded, for example csv: {{encoding: latin-1}}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
