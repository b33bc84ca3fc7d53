"""The process that keeps a run's folder and its charges: one, as several would race for them; and it keeps memory that
was freed, as the first touch of a fresh page costs more than the work done in it. Its threads share settings."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock

from discreet.core.errors import InputError

_LAUNCHED = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables in which torchrun, Open MPI and MPICH give the number of processes that they started."""

_CHOSEN: ContextVar[bool] = ContextVar("one of several processes was chosen to do what is done here", default=False)

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST = 2**31 - 1, 1 << 25


def refuse_several_processes(*, shared: bool = True) -> None:
    """Raise `InputError` if this process is one of several that a launcher started, or that torch.distributed connects,
    and was not chosen to do for all of them what follows. `shared`: whether several can take the steps together, in
    another way.

    torch is not imported here: if nothing else has loaded it, there is no process group.
    """
    if _CHOSEN.get():
        return
    for name in _LAUNCHED:
        if (found := os.environ.get(name, "").strip()) not in ("", "1"):
            raise _refused(f"{name} is {found!r}", shared=shared)
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return
    if (size := distributed.get_world_size()) > 1:
        raise _refused(f"torch.distributed connects {size} processes", shared=shared)


@contextmanager
def one_of_several() -> Iterator[None]:
    """In here this process does for all what one alone may do: keep the ledger, write the folder of the run."""
    token = _CHOSEN.set(True)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def launched() -> bool:
    """Whether torchrun has started this process, as one of several or alone."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def restarts() -> bool:
    """Whether this may be a restart by torchrun, which starts all processes again when one is lost (`--max-restarts`).
    On several machines each counts its own restarts, so a count of none does not tell."""
    return any(int(os.environ.get(f"TORCHELASTIC_{name}", "0")) > 0 for name in ("MAX_RESTARTS", "RESTART_COUNT"))


def rank() -> int:
    """The number of this process among those that torchrun has started; 0 for the first, and for one alone."""
    return int(os.environ["RANK"]) if launched() else 0


def world_size() -> int:
    """The number of processes that torchrun has started; 1 for one alone."""
    return int(os.environ["WORLD_SIZE"]) if launched() else 1


def local_rank_and_size() -> tuple[int, int]:
    """The number of this process among those that torchrun has started on this machine, and how many these are."""
    return (
        (int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if launched() else (0, 1)
    )


class ProcessWide:
    """A context that changes settings of the whole process: the thread that comes first enters it, and the one that
    goes last leaves it."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make, self._lock, self._inside, self._open = make, Lock(), 0, ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._open.enter_context(self._make())
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._open.close()


def _refused(found: str, *, shared: bool) -> InputError:
    together = ', or let several take its steps together: discreet train --processes N, Training(shard="replicate")'
    return InputError(
        f"{found}, but a run is one process; start one only (python, not torchrun){together if shared else ''}. "
        "Nothing was charged"
    )


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
