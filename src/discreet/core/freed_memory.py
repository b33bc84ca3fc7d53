"""Keep freed memory in the process: the first touch of a fresh page costs more than the work done in it."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST = 2**31 - 1, 1 << 25


@cache
def keep_freed_memory() -> None:
    """Let the allocator keep up to 2 GiB that was freed, instead of returning it in every step.

    Blocks of up to 32 MiB are kept, the most that glibc allows (mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD).
    Each step reuses the memory of the step before, so the process does not grow. Other allocators are left alone.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _KEPT)
