"""Loading what a command needs, and what is said meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from discreet.core.processes import rank, world_size

T = TypeVar("T")


@contextmanager
def loading() -> Iterator[None]:
    """Inside, Python looks for no garbage: modules make none, but torch's so many objects that looking takes a second.

    What was loaded is not looked at again afterwards either.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def to_terminal(line: str) -> None:
    """Say something to a person who waits, once for all processes; scripts and files do not get it."""
    if line and sys.stderr.isatty() and rank() == 0:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def by_first_process(purpose: str, make: Callable[[], T]) -> T:
    """`make()` of the first process, as JSON, in all of them: they may not see its disk. What it raises, all raise."""
    if world_size() == 1:
        return make()
    with loading():
        from discreet.distributed.ranks import Ranks
    found: T = Ranks.joined().from_first(purpose, make)
    return found


def in_all_processes(make: Callable[[], T], *, words: bool) -> T:
    """`make()` in every process. If it fails in one, on whose machine a file is missing, it fails in all. `words`: as
    in `Ranks.together`."""
    if world_size() == 1:
        return make()
    with loading():
        from discreet.distributed.ranks import Ranks
    return Ranks.joined().together("the command", make, words=words)
