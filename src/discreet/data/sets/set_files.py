"""Finds and reads the files of named data sets, with one-line errors."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from discreet.core.disk import refuse_special
from discreet.core.errors import InputError
from discreet.data.packed import Unpacked


def folder_of(path: Path | None, name: str, needs: str, inner: Sequence[str] = ()) -> Path:
    """`path` itself, or the folder `name` in it; or of these the first of the `inner` folders that is there, by the
    names that archives have. `needs`: the required files, for the error."""
    if path is None:
        raise InputError(f"this recipe needs {needs}; give their folder with --data DIR")
    folder = path / name if (path / name).is_dir() else path
    return next((folder / one for one in inner if (folder / one).is_dir()), folder)


def present(folder: Path, name: str) -> Path | None:
    """The file `name` or `name`.gz, if there is one."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def find(folder: Path, name: str, needs: str) -> Path:
    """The file `name` or `name`.gz in `folder`. `needs`: the required files, for the error."""
    path = present(folder, name)
    if path is None:
        raise InputError(f"{folder} lacks {name} (or {name}.gz); give the folder of {needs} with --data DIR")
    return path


def read(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    refuse_special(path)
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            return Unpacked(path, file).read()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {error}; get the original file again") from None


def text_of(path: Path) -> str:
    """The content of a file as text."""
    try:
        return read(path).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8; get the original file again") from None


def malformed(path: Path, line: int, fault: str) -> NoReturn:
    """Refuse a file because of a line, counted from 1."""
    raise InputError(f"{path}, line {line}: {fault}; get the original file again")
