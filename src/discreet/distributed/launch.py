"""Starting several processes on one machine: torchrun's own launcher, called from here."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.silence import unlogged
from discreet.randomness.blocks import usable_cores

_FEW, _PER_CORE = 8, 4
"""The most processes that are started: 8, or 4 for each core if that is more."""


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `python -m discreet` with these arguments in so many processes, and return the exit code of the one that
    failed first, or 0. The cores are shared out, unless OMP_NUM_THREADS says how many each takes."""
    count, cores = checks.count("processes", processes), usable_cores()
    most = max(_FEW, _PER_CORE * cores)
    if count > most:
        raise InputError(
            f"{count} processes on {cores} cores would fill the memory, each with its own torch and model; start "
            f"{most} at most, or several machines' with torchrun"
        )
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // count)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=secrets.token_hex(8),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        with unlogged():  # the processes themselves say what went wrong
            elastic_launch(config, sys.executable)("-m", "discreet", *arguments)
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0
