"""Programs in several processes, forked from one that has imported torch and the library already.

torchrun imports them in every process that it starts, which costs more processor time than most of the tests that need
several. Here one process per pytest process imports them once, and every start is a fork. Otherwise a start is like one
of torchrun: variables of the environment connect the processes, and when one fails the others are told to end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any, TextIO

SUPPORT = Path(__file__).parent
IMPORTED = ("torch.distributed", "discreet", "problems", "pytest")
GRACE = 30.0
"""Seconds between the request to end and the end by force, as torchrun has them."""


def forked(processes: int, program: str, *arguments: str, imports: tuple[str, ...] = (), timeout: float = 240) -> str:
    """Run a program of this folder in so many processes and return what it printed; its failure fails the test.
    `imports`: modules that all of them need and that take long."""
    done = started(processes, program, *arguments, imports=imports, timeout=timeout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def started(
    processes: int, program: str, *arguments: str, imports: tuple[str, ...] = (), timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """The same, whether it fails or not."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    asked = {
        "processes": processes,
        "program": [str(SUPPORT / program), *arguments],
        "imports": imports,
        "timeout": timeout,
        "environment": environment | {"OMP_NUM_THREADS": "1", "DISCREET_TIMEOUT": "60"},
        "folder": str(Path.cwd()),
    }
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(asked) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    if answer["code"] is None:
        raise subprocess.TimeoutExpired(asked["program"], timeout, answer["said"], answer["errors"])
    return subprocess.CompletedProcess(asked["program"], answer["code"], answer["said"], answer["errors"])


@cache
def _server(_: int) -> subprocess.Popen[str]:
    """The process that forks, of the process with this id."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__))]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    server.communicate()  # no request comes any more


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer one request after the other."""
    gc.disable()  # what is imported stays
    for name in IMPORTED:
        importlib.import_module(name)
    _warm()
    gc.collect()
    gc.freeze()  # no collection in a process that is forked then looks at, and so copies, what all of them share
    gc.enable()
    for line in requests:
        asked = json.loads(line)
        for name in asked["imports"]:
            importlib.import_module(name)
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
            code = _run(asked, said, errors)
            said.seek(0)
            errors.seek(0)
            answers.write(json.dumps({"code": code, "said": said.read(), "errors": errors.read()}) + "\n")
        answers.flush()


def _warm() -> None:
    """Take a tiny run, so that what is imported and compiled at first use is there."""
    from problems import tiny_training

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tiny_training(Path(folder) / "run", engine="bookkeeping").run()


def _run(asked: dict[str, Any], said: TextIO, errors: TextIO) -> int | None:
    """0, 1 if a process failed, None if they took too long."""
    with socket.socket() as held:
        # Bound until all have ended, so that nobody else is given the port; not listening, so that the first may.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        places = {"WORLD_SIZE": asked["processes"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": held.getsockname()[1]}
        running = []
        for rank in range(asked["processes"]):
            process = os.fork()
            if process == 0:
                places |= {"RANK": rank, "LOCAL_RANK": rank}
                os.environ.clear()
                os.environ.update(asked["environment"] | {name: str(one) for name, one in places.items()})
                os.dup2(said.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                os.chdir(asked["folder"])
                _become(asked["program"])
            running.append(process)
        return _watch(running, time.monotonic() + asked["timeout"])


def _become(program: list[str]) -> None:
    """Be a process that runs a program, and end with it."""
    sys.stdin, sys.argv, code = open(os.devnull), program, 0  # noqa: SIM115 - until the end
    try:
        runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _watch(running: list[int], deadline: float) -> int | None:
    code: int | None = 0
    while running:
        for process in [*running]:
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            running.remove(process)
            if status != 0 and code == 0:
                code, deadline = 1, min(deadline, time.monotonic() + GRACE)
                _tell(running, signal.SIGTERM)
        if running and time.monotonic() > deadline:
            _tell(running, signal.SIGKILL)
            if code == 0:
                code = None
        time.sleep(0.005)
    return code


def _tell(processes: list[int], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, what)


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what imports print is no answer
    serve(sys.stdin, channel)
