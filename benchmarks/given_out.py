"""What glibc's allocator has given out: memory in use, without the holes that it keeps between blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Event, Thread

EVERY = 0.0005
"""Seconds between two looks."""


class _Mallinfo(ctypes.Structure):
    """What mallinfo2(3) returns."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


def given_out() -> float:
    """MiB that the allocator has given out and not got back."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo
    found = mallinfo2()
    return float(found.uordblks + found.hblkhd) / 2**20


def most_given_out(function: Callable[[], object]) -> float:
    """MiB that were given out at most while `function` ran, above what was before it."""
    before, most, done = given_out(), [0.0], Event()

    def look() -> None:
        while not done.wait(EVERY):
            most[0] = max(most[0], given_out())

    looking = Thread(target=look)
    looking.start()
    try:
        function()
    finally:
        done.set()
        looking.join()
    return most[0] - before
