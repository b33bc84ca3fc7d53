"""Files of spreadsheets and statistics programs, read by pandas where it is installed, and of JSON lines."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.data.tables.files.cells import cell_text
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


def foreign_table(path: Path, decimal: str) -> pa.Table:
    """The table in a file, of a spreadsheet its first sheet. `InputError` says what to install.

    Cells of a column with several types are texts with this `decimal` mark, each read by itself (`cell_text`): a cell
    must not decide how those of other people are read. Which texts stand for a missing value is left to the schema.
    """
    if not path.exists():
        raise InputError(f"there is no table {path}; check the path")
    if path.suffix.lower() in SUFFIXES:
        return _of_json(path, decimal)
    reader, needed = _READERS[path.suffix.lower()]
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(_lacking(path, needed)) from None
    read: Callable[..., Any] = getattr(pandas, reader)
    try:
        if reader == "read_excel":
            columns = {name: _of_cells(cells, decimal) for name, cells in _first_sheet(path, pandas).items()}
        else:
            frame = read(path)
            columns = {str(name): _of_column(frame[name], decimal) for name in frame.columns}
    except ImportError:
        raise InputError(_lacking(path, needed)) from None
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


def _first_sheet(path: Path, pandas: Any) -> dict[str, list[Any]]:
    with pandas.ExcelFile(path) as book:
        names = pandas.read_excel(book, nrows=0).columns
        frame = pandas.read_excel(book, converters=dict.fromkeys(names, _Cell))
    if len(frame.columns) > len(names):
        raise InputError(f"{path} has a row with more cells than the first; give every column a name, or empty them")
    return {str(name): [cell.value for cell in frame[name]] for name in frame.columns}


def _of_column(values: Any, decimal: str) -> pa.Array:
    """A column of a file that declares types."""
    labels = values.cat.categories if values.dtype.name == "category" else ()
    mixed = not all(isinstance(label, str) for label in labels)  # some values have a label, others are numbers
    # With a comma, numbers are texts in any case: they would be if one cell of the column were a text.
    if mixed or values.dtype == object or (values.dtype.kind == "f" and decimal != "."):
        return _of_cells(list(values), decimal)
    found = pa.Array.from_pandas(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _of_cells(cells: Sequence[Any], decimal: str) -> pa.Array:
    """Days if all cells are, else texts."""
    there = [one for one in cells if one is not None and one == one]  # NaN, and the missing dates of pandas, are not
    times = [isinstance(one, datetime.datetime) for one in there]
    if there and all(isinstance(one, datetime.date) for one in there) and len({*times}) == 1:
        return pa.array(cells, pa.timestamp("us") if times[0] else pa.date32(), from_pandas=True)
    return pa.array([cell_text(one, decimal) for one in cells], pa.string())


def _of_json(path: Path, decimal: str) -> pa.Table:
    """Every field as texts; a row that lacks one has an empty cell."""
    rows = list(json_rows(path))
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise InputError(f"{path} is empty; give a table with at least one row")
    try:
        return pa.table({name: _of_cells([row.get(name) for row in rows], decimal) for name in names})
    except UnicodeEncodeError:
        raise InputError(f"{path} has half of a surrogate pair in a text, which is no character; remove it") from None


def _lacking(path: Path, needed: str) -> str:
    packages = f"pandas {needed}".strip()
    return f"{path}: reading {path.suffix} files needs more: pip install {packages}; or save the table as .csv"
