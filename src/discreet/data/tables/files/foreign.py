"""Files of spreadsheets and statistics programs, read by pandas where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError

_READERS: dict[str, tuple[str, str]] = {
    ".xlsx": ("read_excel", "openpyxl"),
    ".xlsm": ("read_excel", "openpyxl"),
    ".xls": ("read_excel", "xlrd"),
    ".ods": ("read_excel", "odfpy"),
    ".sav": ("read_spss", "pyreadstat"),
    ".dta": ("read_stata", ""),
}
"""For each file suffix: the function of pandas, and the further package that it needs."""

FOREIGN = tuple(_READERS)


def foreign_table(path: Path) -> pa.Table:
    """The table in a file, of a spreadsheet its first sheet. `InputError` says what to install."""
    reader, needed = _READERS[path.suffix.lower()]
    if not path.exists():
        raise InputError(f"there is no table {path}; check the path")
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(_lacking(path, needed)) from None
    read: Callable[..., Any] = getattr(pandas, reader)
    try:
        frame = read(path)
    except ImportError:
        raise InputError(_lacking(path, needed)) from None
    except Exception as error:  # each of these readers has errors of its own
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    frame.columns = [str(name) for name in frame.columns]
    for name in frame.columns:
        if frame[name].dtype == object:
            frame[name] = frame[name].map(str, na_action="ignore")
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _lacking(path: Path, needed: str) -> str:
    packages = f"pandas {needed}".strip()
    return f"{path}: reading {path.suffix} files needs more: pip install {packages}; or save the table as .csv"
