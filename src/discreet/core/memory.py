"""Memory that is used again: new memory costs more to touch for the first time than what is done with it.

An array from `recycled` owns its memory like any other. Only when nothing refers to it any more, no view and no tensor
either, does the memory go to the next array of that size. So nobody ever sees an array change that he still holds.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST, MOST = 1 << 18, 1 << 26
"""Bytes: smaller arrays are left to NumPy, which keeps their memory itself; more than `MOST` is never kept idle."""

_idle: defaultdict[int, list[npt.NDArray[np.uint8]]] = defaultdict(list)


class _Lent:
    """What an array and all its views refer to, as long as there are any; then its memory is idle."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._memory, self.__array_interface__ = memory, memory.__array_interface__

    def __del__(self) -> None:
        if sum(size * len(kept) for size, kept in list(_idle.items())) + len(self._memory) <= MOST:
            _idle[len(self._memory)].append(self._memory)


def recycled(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A new array, contiguous, whose values are anything, as those of `numpy.empty`."""
    kind = np.dtype(dtype)
    size = kind.itemsize * (shape if isinstance(shape, int) else prod(shape))
    if size < LEAST:
        return np.empty(shape, kind)
    try:
        memory = _idle[size].pop()
    except IndexError:
        memory = np.empty(size, np.uint8)
    return np.asarray(_Lent(memory)).view(kind).reshape(shape)
