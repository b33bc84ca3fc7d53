"""A clean process with `failing_calls.c` preloaded and torch loaded, which forks a child for each command, so that a
command on a disk that fails costs a fraction of a second."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

KINDS = ("ENOSPC", "EIO", "EACCES", "EROFS")
SECONDS = 60
"""No command takes so long, on whatever disk."""


def missing() -> str:
    """Why no call can be made to fail here; "" if it can."""
    if not sys.platform.startswith("linux"):
        return "libraries are preloaded on Linux"
    return "" if shutil.which("gcc") else "there is no gcc"


@dataclass(frozen=True)
class Failure:
    """The call with number `at`, of those that write below a folder, fails so; all that follow too, if it is
    `lasting`."""

    at: int
    kind: str
    lasting: bool = False


@dataclass(frozen=True)
class Answer:
    """What a command did. `calls`: so many that write; `failed`: the first that failed, with its path."""

    code: int
    out: str
    err: str
    calls: int = 0
    failed: str = ""


class BrokenDisk:
    """Runs commands in folders in which calls that write fail."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-disk-"))
        self.library = self.folder / "failing_calls.so"
        source = Path(__file__).with_name("failing_calls.c")
        flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE")
        subprocess.run(["gcc", *flags, "-o", str(self.library), str(source), "-ldl"], check=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.library), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LD_PRELOAD": str(self.library), "OMP_NUM_THREADS": "1"},
        )

    def __call__(
        self,
        work: Path,
        arguments: Sequence[str],
        failure: Failure | None = None,
        *,
        stop: int | None = None,
        log: Path | None = None,
        careless: bool = False,
    ) -> Answer:
        """Run a command in `work`, below which calls fail; its releases are noted in journal.jsonl beside that folder.

        `stop`: it is interrupted after so many releases (0: before it publishes). `log`: a file for the counted calls.
        `careless`: files are written in their place, without a draft.
        """
        request = {"work": str(work), "arguments": list(arguments), "stop": stop, "log": log and str(log)}
        request["careless"] = careless
        if failure is not None:
            request |= {"at": failure.at, "kind": failure.kind, "lasting": failure.lasting}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Answer(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process and remove its files."""
        self._process.communicate()
        shutil.rmtree(self.folder)


def _serve(library: str, scratch: Path) -> None:
    _load(scratch)
    said = {name: scratch / name for name in ("out", "err", "facts")}
    for line in sys.stdin:
        for path in said.values():
            path.write_text("")
        child = os.fork()
        if child == 0:
            _end_with(json.loads(line), library, said)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = {name: path.read_text(errors="replace") for name, path in said.items()}
        facts = json.loads(texts.pop("facts") or "{}")
        print(json.dumps({"code": code, **texts, **facts}), flush=True)  # noqa: T201


def _load(scratch: Path) -> None:
    """Load once, before forking, what commands load."""
    import torch
    from power_commands import FAST, SEARCH
    from power_rules import done, inside

    torch.set_num_threads(1)
    with inside(scratch):
        done("train", "digits", *FAST, "--out", "model")
        done("tune", "digits", *FAST, *SEARCH, "--out", "best")
        done("sign", "model", "--key", "key", "--new-key")
        done("init", "table")
        done("schema", "table-start/patients.csv", "--out", "schema.yaml")
        done("compare", "--rate", "0.1", "--noise", "1", "--steps", "20", "--delta", "1e-5", "--plot", "drawn.svg")


def _end_with(request: dict[str, Any], library: str, said: dict[str, Path]) -> NoReturn:
    code = 99
    try:
        signal.alarm(SECONDS)
        os.chdir(request["work"])
        for stream, name in ((0, os.devnull), (1, said["out"]), (2, said["err"])):
            os.dup2(os.open(name, os.O_RDWR), stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(one), "w", errors="replace") for one in (1, 2))
        code = _command(request, ctypes.CDLL(library), said["facts"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _command(request: dict[str, Any], calls: ctypes.CDLL, facts: Path) -> int:
    from crash_places import record

    from discreet.cli.app import run
    from discreet.core import disk

    work = Path(request["work"])
    record(work.parent / "journal.jsonl")
    if request["stop"] is not None:
        _interrupt_after(request["stop"])
    if request["careless"]:
        disk.write_durably = lambda path, write, mode=0: path.write_bytes(write)
    log = request["log"] and os.fsencode(request["log"])
    kind = getattr(errno, request.get("kind", "EIO"))
    calls.what_failed.restype = ctypes.c_char_p
    calls.arm(os.fsencode(work.resolve()), request.get("at", -1), kind, int(request.get("lasting", False)), log)
    code = run(request["arguments"])
    count = calls.disarm()
    facts.write_text(json.dumps({"calls": count, "failed": calls.what_failed().decode(errors="replace")}))
    return code


def _interrupt_after(releases: int) -> None:
    """As Ctrl-C does after so many releases; with 0, when the model is to be published."""
    from discreet.jobs import train
    from discreet.training import step

    apply, left = step.apply, [releases]

    def stopping(*given: Any) -> None:
        apply(*given)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    step.apply = stopping
    if not releases:
        train.publish = interrupted


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]))
