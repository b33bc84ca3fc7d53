"""Work in blocks: long arrays are filled by several threads, with the same bits whatever their number.

An array is divided into blocks of a fixed size, and each block's words are set aside for it before any thread
starts. So what a block holds depends on its place only, not on which thread fills it, or when.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from discreet.randomness.stream import Substream

BLOCK = 1 << 16
"""Values per block. Half a megabyte, for the second cache: smaller ones make threads wait for Python's lock."""

THREADS_FROM = 1 << 17
"""Arrays that are shorter are filled by the calling thread: starting others would cost more than it saves."""

_Number = TypeVar("_Number", bound=np.generic)
_NumberContra = TypeVar("_NumberContra", bound=np.generic, contravariant=True)


class BlockFiller(Protocol[_NumberContra]):
    """Fills blocks one after the other. May hold scratch space: it serves one thread."""

    def fill(self, substream: Substream, out: npt.NDArray[_NumberContra]) -> None:
        """Overwrite `out`, shape (b,), with numbers made from the words of `substream`."""
        ...


def fill_in_blocks(
    substream: Substream,
    out: npt.NDArray[_Number],
    make_filler: Callable[[int], BlockFiller[_Number]],
    words: Callable[[int], int],
) -> None:
    """Overwrite `out`, shape (n,), block by block.

    Each thread calls `make_filler(size)` once, for a filler of blocks of at most `size` values. A block of b
    values gets the next `words(b)` words of `substream` as a part of its own. Errors of a filler are raised.
    """
    jobs: SimpleQueue[tuple[Substream, npt.NDArray[_Number]]] = SimpleQueue()
    for start in range(0, len(out), BLOCK):
        block = out[start : start + BLOCK]
        jobs.put((substream.part(words(len(block))), block))

    def work() -> None:
        filler = make_filler(min(BLOCK, len(out)))
        with suppress(Empty):
            while True:
                filler.fill(*jobs.get_nowait())

    threads = min(usable_cores(), jobs.qsize()) if len(out) >= THREADS_FROM else 1
    if threads <= 1:
        work()
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            other.result()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
