"""Files of spreadsheets and statistics programs, read by pandas where it is installed, and of JSON lines."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.data.tables.files.cells import cell_text, is_missing
from discreet.data.tables.files.json_lines import SUFFIXES, json_rows

_READERS: dict[str, tuple[str, str]] = {
    ".xlsx": ("read_excel", "openpyxl"),
    ".xlsm": ("read_excel", "openpyxl"),
    ".xls": ("read_excel", "xlrd"),
    ".ods": ("read_excel", "odfpy"),
    ".sav": ("read_spss", "pyreadstat"),
    ".dta": ("read_stata", ""),
}
"""For each file suffix: what reads it in pandas, and the further package that it needs."""

FOREIGN = (*_READERS, *SUFFIXES)


def foreign_table(path: Path, decimal: str, days: Mapping[str, str | None]) -> pa.Table:
    """The table in a file, of a spreadsheet its first sheet. `InputError` says what to install.

    Where cells have types of their own, they become texts, each read by itself (`cell_text`): a cell must not decide
    how those of other people are read. Which texts stand for a missing value is left to the schema. `decimal`: the mark
    of numbers in texts. `days`: for each column that a schema declares, how it writes days, if it does. Of any other
    column, which is only looked at, days stay days.
    """
    if not path.exists():
        raise InputError(f"there is no table {path}; check the path")
    if path.suffix.lower() in SUFFIXES:
        return _of_json(path, decimal)
    reader, needed = _READERS[path.suffix.lower()]
    try:
        import pandas  # type: ignore[import-untyped]

        if reader == "read_excel":
            columns = {name: _of_cells(name, cells, decimal, days) for name, cells in _first_sheet(path, pandas)}
        else:
            frame = getattr(pandas, reader)(path)
            columns = {str(name): _of_column(str(name), frame[name], decimal, days) for name in frame.columns}
    except ImportError:
        packages = f"pandas {needed}".strip()
        raise InputError(
            f"{path}: reading {path.suffix} files needs more: pip install {packages}; or save the table as .csv"
        ) from None
    except InputError:
        raise
    except Exception as error:  # each of these readers has errors of its own
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    return pa.table(columns)


class _Cell:
    """A cell as it is. Of bare ones pandas takes texts for numbers, 01 for 1, unless one of the column is none, and 1
    for the same as True."""

    def __init__(self, value: Any) -> None:
        self.value = None if value == "" else value


def _first_sheet(path: Path, pandas: Any) -> list[tuple[str, list[Any]]]:
    with pandas.ExcelFile(path) as book:
        first, *others = map(str, book.sheet_names)
        names = pandas.read_excel(book, nrows=0).columns
        frame = pandas.read_excel(book, converters=dict.fromkeys(names, _Cell))
    if len(frame.columns) > len(names):
        more = f", or put the sheet with the table before {first!r}, which is read as it comes first" if others else ""
        raise InputError(
            f"{path} has a row with more cells than the first; give every column a name, or empty them{more}"
        )
    texts = [str(name) for name in names]
    twice = [name for name in texts if texts.count(name) > 1]
    if twice:  # the number 1 and the text "1"
        raise InputError(f"{path} has two columns {twice[0]!r}; give each a name of its own")
    return [(str(name), [cell.value for cell in frame[name]]) for name in names]


def _of_column(name: str, values: Any, decimal: str, days: Mapping[str, str | None]) -> pa.Array:
    """A column of a file that declares types."""
    labels = values.cat.categories if values.dtype.name == "category" else ()
    mixed = not all(isinstance(label, str) for label in labels)  # some values have a label, others are numbers
    if mixed or values.dtype == object or values.dtype.kind in "iuf":  # one missing cell makes fractions of numbers
        return _of_cells(name, list(values), decimal, days)
    found = pa.Array.from_pandas(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _of_cells(name: str, cells: Sequence[Any], decimal: str, days: Mapping[str, str | None]) -> pa.Array:
    """Texts; of a column that is only looked at days, if all cells are."""
    if name not in days:
        there = [one for one in cells if not is_missing(one)]
        if there and all(isinstance(one, datetime.date) for one in there):
            return pa.array([None if is_missing(one) else _day(one) for one in cells], pa.date32())
    return pa.array([cell_text(one, decimal, days.get(name)) for one in cells], pa.string())


def _day(time: datetime.date) -> datetime.date:
    return time.date() if isinstance(time, datetime.datetime) else time


def _of_json(path: Path, decimal: str) -> pa.Table:
    """Every field as texts; a row that lacks one has an empty cell."""
    rows = list(json_rows(path))
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise InputError(f"{path} is empty; give a table with at least one row")
    try:
        texts = {name: [cell_text(row.get(name), decimal) for row in rows] for name in names}
        return pa.table({name: pa.array(column, pa.string()) for name, column in texts.items()})
    except UnicodeEncodeError:
        raise InputError(f"{path} has half of a surrogate pair in a text, which is no character; remove it") from None
