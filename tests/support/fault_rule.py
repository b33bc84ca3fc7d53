"""The rule of commands, whatever they are given; and one command run against it.

A try is a process of its own, forked from this one: it must end in ten seconds of processor time (and thirty by the
clock, on a busy machine) within two gigabytes, with an exit code of the table in `cli/app.py` that is not 70, and where
that is not 0, with one line on standard error.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS, BYTES = 10.0, 2 << 30
CODES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Try:
    """A command line, run in a folder with the files that it names."""

    arguments: tuple[str, ...]
    code: int
    stderr: str
    seconds: float
    fault: str | None


def run_in_a_fork(arguments: list[str], folder: Path) -> Try:
    """Run a command in a child of this process, and hold it against the rule."""
    out, err = folder / "stdout", folder / "stderr"
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(arguments, folder, out, err)
    code, usage = _waited(child, start)
    seconds = usage.ru_utime + usage.ru_stime
    said = err.read_text(errors="replace") if err.exists() else ""
    return Try(tuple(arguments), code, said, seconds, _fault(code, said, seconds, usage.ru_maxrss * 1024))


def _child(arguments: list[str], folder: Path, out: Path, err: Path) -> None:
    code = 99
    try:
        os.chdir(folder)
        for stream, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(one), "w", errors="replace") for one in (1, 2))
        from discreet.cli.app import run

        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _waited(child: int, start: float) -> tuple[int, resource.struct_rusage]:
    while time.monotonic() - start < 3 * SECONDS:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    _, _, usage = os.wait4(child, 0)
    return 124, usage


def _fault(code: int, said: str, seconds: float, memory: int) -> str | None:
    lines = [line for line in said.splitlines() if line.strip()]
    if seconds > SECONDS or code == 124:
        return f"took {seconds:.0f} s"
    if code not in CODES:
        return f"exit code {code}"
    if memory > BYTES + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024:
        return f"took {memory >> 20} MiB"
    if "Traceback" in said:
        return "a traceback"
    told = len([line for line in lines if line.startswith("discreet:")])
    if code and told != 1 and not (code == 1 and not lines):  # a verdict is no error: it is on standard output
        return f"{len(lines)} lines"
    return None
