"""The global generators of NumPy and Python, which nobody has seeded with secret bits."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any

import numpy as np

_States = tuple[Any, dict[str, Any], tuple[Any, ...]]
"""NumPy's source of words and its state, and the state of Python's generator."""

_Memory = tuple[Any, ...]


class HostGenerators:
    """The states of both generators when this was made. A row that draws from them would shift the numbers of all later
    rows, so the generators are rewound for each row.

    Reading the states takes as long as a small step. So the memory is read in which both generators hold them, and the
    states only if it has changed since they were read: the same bytes are the same state.
    """

    def __init__(self) -> None:
        self._memory, self._states = _now()

    def rewind(self) -> bool:
        """Restore the states, and return whether they had changed."""
        memory, states = _now()
        if (memory is not None and memory == self._memory) or _same(states, self._states):
            return False
        source, numpy, python = self._states
        if _NUMPY._bit_generator is not source:
            np.random.mtrand.set_bit_generator(source)
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)
        return True


def _now() -> tuple[_Memory | None, _States]:
    """The memory of the generators, and their states."""
    global _last
    memory = _memory()
    if memory is None or _last is None or memory != _last[0]:
        _last = memory, (_NUMPY._bit_generator, np.random.get_state(legacy=False), random.getstate())  # noqa: NPY002
    return _last


_last: tuple[_Memory | None, _States] | None = None

_NUMPY: Any = np.random.mtrand._rand
_PYTHON: Any = random._inst


def _memory() -> _Memory | None:
    """The bytes of all objects that hold a state, and what Python's generator holds beside: the second normal of a
    pair. None where states may lie elsewhere.

    NumPy's generator holds the second normal of a pair itself, and all else in an object that can be replaced.
    """
    words = _NUMPY._bit_generator
    if type(words) is not np.random.MT19937 or sys.implementation.name != "cpython":
        return None
    return words, _bytes(words), _bytes(_NUMPY), _bytes(_PYTHON), _PYTHON.gauss_next


def _bytes(one: object) -> bytes:
    """The memory of an object of CPython, whose address is its id, without its reference count."""
    return ctypes.string_at(id(one) + _COUNT, type(one).__basicsize__ - _COUNT)


_COUNT = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)


def _same(one: _States, other: _States) -> bool:
    (source, numpy, python), (source_now, numpy_now, python_now) = one, other
    words, words_now = numpy["state"], numpy_now["state"]
    return (
        source is source_now
        and python == python_now
        and all(numpy[name] == numpy_now.get(name) for name in numpy if name != "state")
        and words.keys() == words_now.keys()
        and all(np.array_equal(words[name], words_now[name]) for name in words)
    )
