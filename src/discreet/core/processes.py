"""A run is one process. Several would race for its folder and its charges, so they are refused."""

from __future__ import annotations

import os
import sys

from discreet.core.errors import InputError

_LAUNCHED = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables in which torchrun, Open MPI and MPICH give the number of processes that they started."""


def refuse_several_processes() -> None:
    """Raise `InputError` if this process is one of several that a launcher started, or that torch.distributed connects.

    torch is not imported here: if nothing else has loaded it, there is no process group.
    """
    for name in _LAUNCHED:
        if (found := os.environ.get(name, "").strip()) not in ("", "1"):
            raise _refused(f"{name} is {found!r}")
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return
    if (size := distributed.get_world_size()) > 1:
        raise _refused(f"torch.distributed connects {size} processes")


def _refused(found: str) -> InputError:
    return InputError(
        f"{found}, but a run is one process; start one only (python, not torchrun), or unset what the launcher set. "
        "Nothing was charged"
    )
