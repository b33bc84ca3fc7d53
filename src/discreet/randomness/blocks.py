"""Work in blocks: several threads fill a long array, with the same bits whatever the number of threads.

An array is divided into blocks of a fixed size, and the words of each block are set aside before any thread starts.
So the numbers in a block depend on its place only, not on which thread fills the block, or when.
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
"""Values per block. A block is half a megabyte, for the L2 cache; smaller blocks make threads wait for the GIL."""

THREADS_FROM = 1 << 17
"""The calling thread fills shorter arrays alone: starting other threads would cost more than it saves."""

_LONGEST, _EACH = 8, 3

_PASS = 1 << 21
"""Values per block of a pass over memory, which takes a millisecond or two."""

_Number = TypeVar("_Number", bound=np.generic)
_NumberContra = TypeVar("_NumberContra", bound=np.generic, contravariant=True)


class BlockFiller(Protocol[_NumberContra]):
    """Fills blocks one after the other. It may hold scratch space, since it serves one thread only."""

    def fill(self, substream: Substream, out: npt.NDArray[_NumberContra]) -> None:
        """Overwrite `out`, shape (b,), with numbers made from the words of `substream`."""
        ...


def fill_in_blocks(
    substream: Substream,
    out: npt.NDArray[_Number],
    make_filler: Callable[[int], BlockFiller[_Number]],
    words: Callable[[int], int],
    block: int | None = None,
) -> None:
    """Overwrite `out`, shape (n,), in blocks of `block` values, `BLOCK` by default.

    Each thread calls `make_filler(size)` once and gets a filler for blocks of at most `size` values. A block of b
    values gets the next `words(b)` words of `substream` as a part of its own. Errors of a filler are raised.
    """
    size = BLOCK if block is None else block
    if 0 < len(out) <= size:
        make_filler(len(out)).fill(substream.part(words(len(out))), out)
        return
    jobs: SimpleQueue[tuple[Substream, npt.NDArray[_Number]]] = SimpleQueue()
    for start in range(0, len(out), size):
        part = out[start : start + size]
        jobs.put((substream.part(words(len(part))), part))

    def work() -> None:
        filler = make_filler(min(size, len(out)))
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


def long_blocks(length: int) -> int:
    """The size of blocks for numbers that do not depend on it: up to `_LONGEST` times `BLOCK`, with several for each
    thread. What is done under Python's lock takes as long for a long block as for a short one."""
    each = length // (_EACH * usable_cores() * BLOCK)
    return BLOCK * max(1, min(_LONGEST, each))


def in_blocks(work: Callable[[int, int], int], length: int) -> int:
    """Call `work(start, stop)` for blocks of 0 .. length - 1, each once, in several threads if there are many blocks.

    Returns the sum of its results. For work without Python's lock, on arrays too long for caches.
    """
    starts = range(0, length, _PASS)
    if len(starts) < 2 or (threads := min(usable_cores(), len(starts))) < 2:
        return work(0, length)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(lambda start: work(start, min(start + _PASS, length)), starts))


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
