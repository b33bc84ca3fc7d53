"""Arrays for noise in memory that earlier ones have left: the first touch of a fresh page takes longer than drawing."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import IntArray
from discreet.core.processes import keep_freed_memory

_LARGEST = 1 << 25
"""Bytes up to which the allocator itself keeps what was freed (`keep_freed_memory`)."""

_SPARE: deque[npt.NDArray[np.uint8]] = deque(maxlen=2)
"""The latest long blocks that nothing refers to any more."""


def whole_numbers(count: int) -> IntArray:
    """`count` numbers that are still to be written, as of `np.empty`: int64, shape (count,).

    Once `keep_freed_memory` was asked for, arrays of more than 32 MiB take the memory of the last ones of the same
    length, if nothing refers to those any more.
    """
    size = 8 * count
    if size <= _LARGEST or not keep_freed_memory.cache_info().currsize:
        return np.empty(count, np.int64)
    memory = _spare(size)
    owner = memory.view(_Owner)
    weakref.finalize(owner, _SPARE.append, memory).atexit = False
    array: IntArray = np.frombuffer(owner.data, np.int64)
    return array


class _Owner(np.ndarray[Any, Any]):
    """Stands between a block and what refers to it. Views refer to the array, the array to this; when it dies, nothing
    refers to the block."""


def _spare(size: int) -> npt.NDArray[np.uint8]:
    """A block of so many bytes; spare ones of other sizes are freed."""
    while True:
        try:
            found = _SPARE.pop()
        except IndexError:
            return np.empty(size, np.uint8)
        if len(found) == size:
            return found
