"""Reads pickles of lists, dictionaries, numbers, bytes, text and arrays of bytes, without running anything in them.

A pickle is a program that calls functions by name. Here only three names are known, and they stand for classes of this
file, not those of NumPy.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from discreet.core.errors import InputError, kind_of


def plain_pickle(content: bytes, where: Path) -> Any:
    """The content of a pickle, with arrays as `numpy.ndarray` of uint8. `InputError`, with the name `where`, for
    anything else."""
    try:
        return _plain(_Plain(io.BytesIO(content), encoding="bytes").load())
    except _Refused as error:
        raise InputError(f"{where} is refused: {error}; get the original file again") from None
    except Exception as error:  # malformed pickles raise almost anything
        raise InputError(f"{where} is not a pickle of plain values ({type(error).__name__}); get it again") from None


class _Refused(Exception):
    """A value in a pickle that is not plain."""


class _DType:
    """The type of an array in a pickle."""

    def __init__(self, kind: object, *_flags: object) -> None:
        if kind not in ("u1", b"u1"):
            raise _Refused(f"it has an array of type {kind!r}, not of bytes")

    def __setstate__(self, _state: object) -> None:
        """Ignores byte order and fields, which bytes do not have."""


class _Array:
    """An array that is being read."""

    value: np.ndarray | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, data = state
        if not isinstance(dtype, _DType) or not isinstance(data, bytes) or math.prod(shape) != len(data):
            raise _Refused("it has an array that is not of bytes, or of another size than it says")
        self.value = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_arguments: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """Bytes as old protocols of Python 3 write them."""
    if encoding not in ("latin1", b"latin1"):
        raise _Refused(f"it encodes text as {encoding!r}")
    return text.encode("latin1")


_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise _Refused(f"it calls {module}.{name}")
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("it refers to another file")


def _plain(value: Any) -> Any:
    """The value with its arrays in place."""
    if isinstance(value, _Array):
        if value.value is None:
            raise _Refused("it has an array without content")
        return value.value
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | bytes | str):
        return value
    raise _Refused(f"it holds {kind_of(value)}")
