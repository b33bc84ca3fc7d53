"""What goes wrong with a file that is read as a table, in one line."""

from __future__ import annotations

import csv as python_csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from discreet.core.disk import refuse_special
from discreet.core.errors import InputError


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Errors of the file system and of pyarrow as one line that says what to do."""
    refuse_special(path)
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no table {path}; check the path") from None
    except python_csv.Error as error:
        raise InputError(f"cannot read {path}: its first line is no list of names ({error})") from None
    except (OSError, pa.ArrowException) as error:
        if "file size is 0 bytes" in str(error):
            raise InputError(f"{path} is empty; give a table with at least one row") from None
        if "Empty CSV" in str(error):
            raise InputError(f"{path} has no rows; give a table with at least one row") from None
        reason = getattr(error, "strerror", None) or str(error)  # pyarrow's have texts of their own
        raise InputError(f"cannot read {path}: {' '.join(reason.split())[:200]}") from None


def not_decoded(path: Path, encoding: str, line: int) -> InputError:
    """The error for a line that is not text in the encoding of its file."""
    name = "UTF-8" if encoding == "utf-8" else encoding
    return InputError(
        f"{path} is not text in {name}: see line {line}; mend it, or say how the file is encoded, as csv: {{encoding: "
        "latin-1} in a schema, or --encoding latin-1 of `discreet schema`, which finds out"
    )
