"""Files that are called tables of text and are none, by their first bytes: read as text they would be columns of noise,
and a draft of a schema would show what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from discreet.core.errors import InputError

_MARKS = (
    (b"\x93NUMPY", "an array of NumPy; save a table as .csv or .parquet"),
    (b"\x89PNG\r\n", "an image; save a table as .csv or .parquet"),
    (b"\xff\xd8\xff", "an image; save a table as .csv or .parquet"),
    (b"%PDF-", "a PDF document; save a table as .csv or .parquet"),
    (b"SQLite format 3\0", "a database; export the table as .csv or .parquet"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old spreadsheet; name it .xls, or save the table as .csv"),
)
_PARQUET = b"PAR1"


def refuse_binary(path: Path, file: IO[bytes]) -> None:
    """`InputError` for a file that begins like one of another kind; it is left at its beginning."""
    begin = file.read(16)
    found = next((what for mark, what in _MARKS if begin.startswith(mark)), None)
    if begin.startswith(_PARQUET) and path.stat().st_size > 2 * len(_PARQUET):  # a column may be called so
        file.seek(-len(_PARQUET), 2)
        found = "a Parquet file; name it .parquet" if file.read() == _PARQUET else None
    file.seek(0)
    if found is not None:
        raise InputError(f"{path} is {found}")
