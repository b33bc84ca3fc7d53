"""Programs in several processes, started by torchrun. `forked` starts them for less."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent


def torchrun(processes: int, program: str, *arguments: str) -> str:
    """Run a program of this folder in so many processes and return what it printed; its failure fails the test."""
    done = started(processes, program, *arguments)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def started(processes: int, program: str, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """The same, whether it fails or not."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    here = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.run(
        [*command, str(SUPPORT / program), *arguments],
        env={"DISCREET_TIMEOUT": "60"} | here | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
