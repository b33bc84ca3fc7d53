"""Programs whose sums travel by collectives, without a card: gloo has them between processors, too. Noise is drawn
beside the steps, as with cards.

torchrun --nproc-per-node 2 by_collectives.py PROGRAM ARGUMENT...      a program of this folder
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from discreet.distributed.connection.carriers import BACKENDS, Backend, Collectives
from discreet.distributed.connection.process_groups import GROUPS
from discreet.training import training as training_module

BETWEEN_PROCESSORS = Backend("gloo", lambda _: str(os.getpid()), lambda _: True)
"""Each process counts as a device of its own; gloo's collectives have ended when they were waited for."""


def between_processors() -> None:
    """Let sums of this process travel by collectives."""
    BACKENDS["cpu"], os.environ["DISCREET_COLLECTIVES"] = BETWEEN_PROCESSORS, "1"


def main(program: str, arguments: list[str]) -> None:
    between_processors()
    real = training_module.Run
    training_module.Run = lambda **parts: real(**parts | {"ahead": True})  # type: ignore[misc,assignment]
    sys.argv = [program, *arguments]
    runpy.run_path(str(Path(__file__).with_name(program)), run_name="__main__")
    assert isinstance(GROUPS.carrier, Collectives)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
