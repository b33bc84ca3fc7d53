"""A clean process that has torch loaded and forks a child for each request, so that a crash and its resuming cost a
fraction of a second. A child trains or resumes the tiny problem in FOLDER/run, publishes to FOLDER/out if asked, notes
every release in FOLDER/journal.jsonl (durably, as soon as its noise is drawn) and calls `hit` at every boundary."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from crash_places import Fault, instrument, record
from crash_plants import PLANTS
from crash_runs import BLOCK, PHASES, adaptive_plan, plan


class Server:
    """Forks a child per request; see `_child` for the keys of a request."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, folder: Path, **request: Any) -> tuple[int, str]:
        """(exit code, last line said) of a child; a code is negative for a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), **request}) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        return reply["code"], reply["said"]

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def _serve() -> None:
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:  # what a run loads is loaded once, before forking
        from problems import certified_run

        from discreet import publish

        publish(certified_run(Path(folder), plan=plan()), Path(folder) / "out")

    for line in sys.stdin:
        request = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _end_with(request, write)
        os.close(write)
        limit = request.get("kill_after")
        if limit is not None and not select.select([read], [], [], limit)[0]:
            os.kill(child, signal.SIGKILL)
        with os.fdopen(read) as file:
            said = file.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"code": status, "said": said}), flush=True)  # noqa: T201


def _end_with(request: dict[str, Any], write: int) -> NoReturn:
    code, said = 1, "no reply"
    try:
        said = _child(request)
        code = 0
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        os.write(write, said.encode()[:4000])
        os._exit(code)


def _child(request: dict[str, Any]) -> str:
    """One attempt.

    | key        | meaning |
    |------------|---------|
    | folder     | holds run/, out/ and the journal |
    | resume     | go on with the run |
    | fault      | (place, n): exit there at the n-th visit |
    | plant      | a fault of the library itself, from `PLANTS` |
    | publish    | publish to FOLDER/out afterwards |
    | phases, block, delta, sampling | another plan |
    | adaptive   | the adaptive plan instead |
    | seed, rate, rows     | another initial model, learning rate, data |
    | engine, noise, test_stream | another mechanism |
    | ledger, dataset_id         | a shared ledger |
    | kill_after | seconds until the server sends SIGKILL |
    """
    import torch
    from problems import blobs, linear, tiny_training

    from discreet import publish
    from discreet.randomness import TestStream

    folder = Path(request["folder"])
    record(folder / "journal.jsonl")
    instrument(Fault(*request["fault"]) if request.get("fault") else Fault("nowhere", 0))
    if request.get("plant"):
        PLANTS[request["plant"]]()
    model = linear(request.get("seed", 0))
    optimizer = torch.optim.SGD(model.parameters(), lr=request.get("rate", 0.1), momentum=0.5)
    options = {key: request[key] for key in ("engine", "noise", "ledger", "dataset_id") if key in request}
    training = tiny_training(
        folder,
        model=model,
        optimizer=optimizer,
        plan=adaptive_plan()
        if request.get("adaptive")
        else plan(
            request.get("phases", PHASES),
            request.get("block", BLOCK),
            request.get("delta", 1e-5),
            request.get("sampling", "poisson"),
        ),
        data=blobs(request.get("rows", 24)),
        stream=TestStream(5) if request.get("test_stream") else None,
        resume=request.get("resume", False),
        physical_batch=5,
        **options,
    )
    trained = training.run(progress=False)
    if request.get("publish"):
        publish(trained, folder / "out")
    return f"done, {trained.charged_steps} charged"


if __name__ == "__main__":
    _serve()
