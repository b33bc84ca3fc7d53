"""Programs whose sums travel by collectives. Noise is drawn beside the steps, as with cards.

Without a card gloo has them, between processors. On one card NCCL has them, between processes that each count as a
machine of their own: NCCL refuses two processes of one machine on a card, and takes what goes between machines through
sockets.

torchrun --nproc-per-node 2 by_collectives.py PROGRAM ARGUMENT...      a program of this folder
"""

from __future__ import annotations

import os
import runpy
import sys
from dataclasses import replace
from pathlib import Path

from problems import DEVICE

from discreet.distributed.connection.carriers import BACKENDS, Backend, Collectives
from discreet.distributed.connection.process_groups import GROUPS
from discreet.training import training as training_module


def _own(_: object) -> str:
    """Each process counts as a device of its own."""
    return str(os.getpid())


# gloo's collectives have ended when they were waited for
BETWEEN = Backend("gloo", _own, lambda _: True) if DEVICE == "cpu" else replace(BACKENDS["cuda"], place=_own)


def by_collectives() -> None:
    """Let sums of this process travel by collectives."""
    BACKENDS[DEVICE], os.environ["DISCREET_COLLECTIVES"] = BETWEEN, "1"
    os.environ |= {"NCCL_HOSTID": _own(None), "NCCL_SOCKET_IFNAME": "lo"}


def main(program: str, arguments: list[str]) -> None:
    by_collectives()
    real = training_module.Run
    training_module.Run = lambda **parts: real(**parts | {"ahead": True})  # type: ignore[misc,assignment]
    sys.argv = [program, *arguments]
    runpy.run_path(str(Path(__file__).with_name(program)), run_name="__main__")
    assert isinstance(GROUPS.carrier, Collectives)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
