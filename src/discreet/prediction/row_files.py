"""Rows to predict, from a file: .npy, .npz, .csv, or the idx files of MNIST. No pickled object is read."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.packed import NotArrays, array_names, read_arrays
from discreet.data.sets.mnist import read_idx

_INPUTS = ("x", "inputs", "x_test", "x_train")
"""Names of an array of inputs in a .npz file; a single array may have any name."""

_WANTED = "give a .npy, .npz or .csv file of numbers, or an idx file of images"


def read_rows(path: Path, shape: tuple[int, ...] | None) -> Array:
    """The rows in a file, shape (rows, ...), float64. `shape`: that of one row, if the model tells it.

    | file | rows |
    |------|------|
    | .npy | the array |
    | .npz | the array called x, inputs, x_test or x_train, or the only one |
    | .csv | one row per line, numbers only; a first line without numbers is a header |
    | idx, .gz | images of bytes, scaled to [0, 1] as `discreet train` does for MNIST |
    | folder of MNIST's idx files | its test images |
    """
    if path.is_dir():
        found = [path / part / f"t10k-images-idx3-ubyte{end}" for part in ("", "mnist") for end in ("", ".gz")]
        path = next((candidate for candidate in found if candidate.is_file()), path)
    if not path.is_file():
        if not path.exists():
            raise InputError(f"there is no file {path}; check the path")
        raise InputError(f"there are no rows at {path}; {_WANTED}")
    if path.suffix in (".npy", ".npz"):
        return _array(path)
    if path.suffix == ".csv":
        return _table(path, shape)
    if path.suffix not in ("", ".gz") and "idx" not in path.name:
        raise InputError(f"{path} is no file of rows; {_WANTED}")
    return read_idx(path) / 255.0


def _array(path: Path) -> Array:
    try:
        name = _name_in(array_names(path), path) if zipfile.is_zipfile(path) else ""
        found = read_arrays(path, [name])[name]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except NotArrays:
        raise InputError(f"{path} is not a file of plain arrays; write it with numpy.save or numpy.savez") from None
    if found.dtype.kind not in "fiub":
        raise InputError(f"{path} holds {found.dtype}; it must hold numbers")
    return np.asarray(found, dtype=np.float64)


def _name_in(names: list[str], path: Path) -> str:
    known = [name for name in _INPUTS if name in names]
    if known or len(names) == 1:
        return (known or names)[0]
    raise InputError(f"{path} holds the arrays {', '.join(names) or 'none'}; call the rows to predict 'x'")


def _table(path: Path, shape: tuple[int, ...] | None) -> Array:
    columns = None if shape is None else int(np.prod(shape))
    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for line, cells in _lines(csv.reader(file)):
                numbers = _numbers(cells)
                if numbers is None and line == 1:
                    continue
                if numbers is None:
                    place = next(place for place, cell in enumerate(cells, 1) if _numbers([cell]) is None)
                    raise InputError(f"{path}, line {line}, column {place}: every cell must be a number")
                columns = columns or len(numbers)
                if len(numbers) != columns:
                    raise InputError(f"{path}, line {line}: {len(numbers)} columns, but a row has {columns}")
                rows.append(numbers)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} is not a .csv file in UTF-8") from None
    if not rows:
        raise InputError(f"{path} has no rows")
    return np.array(rows, dtype=np.float64)


def _lines(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    for line, cells in enumerate(reader, 1):
        if any(cell.strip() for cell in cells):
            yield line, cells


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None
