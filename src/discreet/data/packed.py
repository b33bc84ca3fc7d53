"""Compressed files and files of arrays: what they would take in memory is known before it is taken.

A few kilobytes can unpack to terabytes, and the header of an array may promise more than its file has.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from discreet.core.disk import refuse_special
from discreet.core.errors import InputError

LARGEST, TIMES = 1 << 30, 100
"""A file may unpack to 1 GiB, or to a hundred times its own size if that is more."""

_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def most_unpacked(path: Path) -> int:
    """The most bytes that a compressed file may unpack to."""
    return max(LARGEST, TIMES * path.stat().st_size)


def too_large(path: Path) -> InputError:
    """The refusal of a file that unpacks to more."""
    return InputError(
        f"{path} unpacks to more than {most_unpacked(path):,} bytes, the most for a file of its size; unpack it first"
    )


class NotArrays(Exception):
    """A file holds no plain arrays."""


@contextmanager
def _of_arrays() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise NotArrays(str(error)) from error


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int = ..., /) -> bytes:
        """At most `size` bytes, or all."""


class Unpacked:
    """The bytes of a compressed file; `InputError` where they become too many."""

    def __init__(self, path: Path, file: Readable) -> None:
        self._path, self._file, self._left = path, file, most_unpacked(path)

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, or all."""
        found = self._file.read(self._left + 1 if size < 0 else size)
        self._left -= len(found)
        if self._left < 0:
            raise too_large(self._path)
        return found


@_of_arrays()
def array_names(path: Path) -> list[str]:
    """The names of the arrays in a .npz file; `NotArrays` if it is none."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@_of_arrays()
def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a .npz file, or those with these names; of a .npy file its array, under the name ''.

    `InputError` for one that is larger in memory than its file allows, `NotArrays` for what is no such file. Nothing
    pickled is read.
    """
    refuse_special(path)
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            return {"": _array(path, file, path.stat().st_size)}
        with zipfile.ZipFile(file) as archive:
            wanted = [one for one in archive.infolist() if names is None or one.filename.removesuffix(".npy") in names]
            if sum(one.file_size for one in wanted) > most_unpacked(path):
                raise too_large(path)
            found = {}
            for one in wanted:
                with archive.open(one) as inner:
                    found[one.filename.removesuffix(".npy")] = _array(path, inner, one.file_size)
            return found


def _array(path: Path, file: IO[bytes], size: int) -> np.ndarray:
    start = file.tell()
    header = _HEADERS.get(np.lib.format.read_magic(file))
    if header is None:
        raise ValueError("an unknown version of the format")
    shape, _, kind = header(file)
    if kind.hasobject:
        raise ValueError("pickled objects")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize > size - (file.tell() - start):
        raise InputError(f"{path} has an array of shape {shape} by its header, and fewer bytes; write the file again")
    file.seek(start)
    found: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    if kind == np.bool_ and found.view(np.uint8).max(initial=0) > 1:
        raise InputError(f"{path} has truth values that are neither 0 nor 1; write the array again")
    return found
