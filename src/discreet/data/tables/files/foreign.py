"""Files of spreadsheets and statistics programs, read by pandas where it is installed, and of JSON lines."""

from __future__ import annotations

from collections.abc import Callable
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
"""For each file suffix: the function of pandas, and the further package that it needs."""

FOREIGN = (*_READERS, *SUFFIXES)


def foreign_table(path: Path, decimal: str) -> pa.Table:
    """The table in a file, of a spreadsheet its first sheet. `InputError` says what to install.

    Cells of a column with several types are texts with this `decimal` mark, each read by itself (`cell_text`): a cell
    must not decide how those of other people are read.
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
        # As objects: pandas would take texts for numbers, 01 for 1, unless one of a column is none.
        frame = read(path, **({"dtype": object} if reader == "read_excel" else {}))
        columns = {str(name): _column(frame[name], decimal) for name in frame.columns}
    except ImportError:
        raise InputError(_lacking(path, needed)) from None
    except Exception as error:  # each of these readers has errors of its own
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    return pa.table(columns)


def _column(values: Any, decimal: str) -> pa.Array:
    """A column with the type that the file declares, or that all of its cells have if they are days; else as texts."""
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]

    labels = values.cat.categories if values.dtype.name == "category" else None
    if labels is not None and infer_dtype(labels) != "string":  # some values have a label, others are numbers
        values = values.astype(object)
    if values.dtype == object and infer_dtype(values, skipna=True) in ("datetime", "date"):
        return pa.array(values, pa.timestamp("us"), from_pandas=True)
    # With a comma, numbers are texts in any case: they would be if one cell of the column were a text.
    if values.dtype == object or (values.dtype.kind == "f" and decimal != "."):
        return pa.array([cell_text(value, decimal) for value in values], pa.string())
    found = pa.Array.from_pandas(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _of_json(path: Path, decimal: str) -> pa.Table:
    """Every field as texts; a row that lacks one has an empty cell."""
    rows = list(json_rows(path))
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise InputError(f"{path} is empty; give a table with at least one row")
    try:
        return pa.table(
            {name: pa.array([cell_text(row.get(name), decimal) for row in rows], pa.string()) for name in names}
        )
    except UnicodeEncodeError:
        raise InputError(f"{path} has half of a surrogate pair in a text, which is no character; remove it") from None


def _lacking(path: Path, needed: str) -> str:
    packages = f"pandas {needed}".strip()
    return f"{path}: reading {path.suffix} files needs more: pip install {packages}; or save the table as .csv"
