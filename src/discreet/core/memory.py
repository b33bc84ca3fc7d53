"""Keeping freed memory in the process: touching fresh pages for the first time costs more than work done in them."""

from __future__ import annotations

from functools import cache

import numpy as np

_LARGEST = (1 << 25) - (1 << 16)


@cache
def keep_freed_memory() -> None:
    """Let the allocator keep up to 64 MiB that was freed, instead of returning it at the end of every step.

    glibc takes the largest block that was ever freed, up to 32 MiB, for a sign of what a program needs (mallopt(3),
    M_MMAP_THRESHOLD, dynamic adjustment), so one such block is freed. It is never touched. Elsewhere nothing happens.
    """
    np.empty(_LARGEST, np.uint8)
