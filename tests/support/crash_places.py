"""Where a run can die: every boundary calls `hit`, and every release is noted as soon as its noise is drawn."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash_runs import CRASH

from discreet.core.events.event_json import to_json


@dataclass
class Fault:
    place: str
    visit: int

    def hit(self, place: str) -> None:
        """Exit, as a crash would, at the chosen visit of the chosen place."""
        if place == self.place:
            self.visit -= 1
            if self.visit == 0:
                os._exit(CRASH)


_HIT = [lambda place: None]


def hit(place: str) -> None:
    """Tell the fault of this process where it is."""
    _HIT[0](place)


class _Tap:
    """A stream that notes the first words of the noise it hands out."""

    def __init__(self, stream: Any) -> None:
        self.kind, self._stream, self.words = stream.kind, stream, ""

    def substream(self, purpose: Any, step: int) -> Any:
        from discreet.randomness import Substream

        found = self._stream.substream(purpose, step)
        peek = Substream.__new__(Substream)
        peek._aes, peek._process = found._aes, found._process
        peek._move(0, 8)
        self.words = hashlib.sha256(peek.words(8).tobytes()).hexdigest()
        return found


def record(path: Path) -> None:
    """Note each release as soon as its noise is drawn, before anyone can have seen it."""
    from discreet.training import step
    from discreet.training.private_metrics import counts

    original = step.gaussian_release

    def recorded(total: Any, receipt: Any, stream: Any, sampler: Any, *_: Any) -> Any:
        hit("noise: before")
        tap = _Tap(stream)
        release = original(total, receipt, tap, sampler)
        line = {
            "run": receipt.run,
            "attempt": receipt.attempt,
            "position": receipt.position,
            "event": to_json(receipt.event),
            "words": tap.words,
        }
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        hit("noise: after")
        return release

    step.gaussian_release = recorded
    counts.gaussian_release = recorded


def instrument(fault: Fault) -> None:
    """Call `hit` at every boundary."""
    from sqlalchemy import Engine, event

    from discreet.ledger import Ledger
    from discreet.publication import publishing as publication
    from discreet.sampling import AllocationSampler, IndividualSampler, PoissonSampler, ShuffleSampler
    from discreet.sampling.cyclic_poisson import Dealt
    from discreet.training import batch, step
    from discreet.training.run import checkpoint_files, run_folder

    _HIT[0] = fault.hit
    doing = ["open"]
    for method in ("open_run", "start_attempt", "reserve", "commit"):
        _wrap_ledger(Ledger, method, doing)
    event.listen(Engine, "commit", lambda _connection: hit(f"{doing[0]}: before commit"))
    for sampler in (PoissonSampler, ShuffleSampler, AllocationSampler, IndividualSampler, Dealt):
        _around(sampler, "batches", "draw")
    _around(batch.Batch, "_add", "chunk")
    _around(step, "apply", "optimizer")
    _around(run_folder.RunFolder, "create", "folder")
    _around(publication, "_write_together", "publish")
    _around(publication, "_destroy", "destroy", called)

    rename, unlink, save = os.replace, pathlib.Path.unlink, checkpoint_files.write_durably

    def replace(source: Any, target: Any) -> None:
        name = called(Path(target))
        hit(f"rename {name}: before")
        rename(source, target)
        hit(f"rename {name}: after")

    def remove(path: Path, missing_ok: bool = False) -> None:
        hit(f"unlink {called(path)}: before")
        unlink(path, missing_ok=missing_ok)

    def write(path: Path, content: Any, mode: int, **more: Any) -> None:
        """A part of a checkpoint, or its index."""
        hit("checkpoint: before the draft")
        memory = io.BytesIO()
        memory.write(content) if isinstance(content, bytes) else content(memory)
        data = memory.getvalue()

        def halves(file: Any) -> None:
            file.write(data[: len(data) // 2])
            file.flush()
            hit("checkpoint: half a draft")
            file.write(data[len(data) // 2 :])

        save(path, halves, mode, **more)

    os.replace = replace  # type: ignore[assignment]
    pathlib.Path.unlink = remove  # type: ignore[method-assign]
    checkpoint_files.write_durably = write


def called(path: Path) -> str:
    """The name of a file; parts of checkpoints have another one each time."""
    return "part" if path.match("checkpoint-*.safetensors") else path.name


def _wrap_ledger(owner: Any, name: str, doing: list[str]) -> None:
    original = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        hit(f"{name}: begin")
        doing[0] = name
        result = original(*args, **options)
        doing[0] = "other"
        hit(f"{name}: after commit")
        return result

    setattr(owner, name, wrapped)


def _around(owner: Any, name: str, place: str, which: Any = None) -> None:
    original = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        full = place if which is None else f"{place} {which(*args)}"
        hit(f"{full}: before")
        result = original(*args, **options)
        hit(f"{full}: after")
        return result

    setattr(owner, name, wrapped)
