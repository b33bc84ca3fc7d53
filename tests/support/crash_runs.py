"""Runs that die at a chosen place, and what must hold afterwards.

`Server` is a clean process that has torch loaded and forks a child for each request, so that a crash and its resuming
cost a fraction of a second. A child trains or resumes the tiny problem in FOLDER/run, publishes to FOLDER/out if asked,
notes every release in FOLDER/journal.jsonl (durably, as soon as its noise is drawn) and calls `hit` at every boundary.

`findings` compares the journal with the ledger.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from discreet.core.adjacency import Adjacency
from discreet.core.event_json import from_json, to_json
from discreet.core.events import Event, steps_of
from discreet.ledger import Ledger
from discreet.plan import (
    AdaptivePlan,
    AllocationSampling,
    Counts,
    FixedSizeSampling,
    History,
    Knobs,
    NoSampling,
    Plan,
    PoissonSampling,
    Sampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

CRASH = 77
"""The exit code of an injected crash."""

PHASES = ((2.0, 3), (1.0, 4), (3.0, 3))
BLOCK = 3
STEPS = sum(count for _, count in PHASES)


SAMPLINGS: dict[str, tuple[Sampling, Adjacency]] = {
    "poisson": (PoissonSampling(rate=0.5), Adjacency.ADD_REMOVE),
    "truncated": (TruncatedPoissonSampling(rate=0.5, capacity=30), Adjacency.ADD_REMOVE),
    "fixed size": (FixedSizeSampling(batch=12), Adjacency.REPLACE_ONE),
    "shuffle": (ShuffleSampling(batch=5), Adjacency.ZERO_OUT),
    "allocation": (AllocationSampling(period=5), Adjacency.ADD_REMOVE),
    "none": (NoSampling(), Adjacency.REPLACE_ONE),
}
"""By name; epochs and periods have five steps."""


def plan(phases: Any = PHASES, block: int = BLOCK, delta: float = 1e-5, sampling: str = "poisson") -> Plan:
    """Unequal multipliers, so that a step charged in the wrong order shows."""
    drawn, adjacency = SAMPLINGS[sampling]
    made = Plan.make(
        drawn,
        adjacency=adjacency,
        population=24,
        steps=sum(count for _, count in phases),
        clip_norm=1.0,
        delta=delta,
        noise_multiplier=[tuple(phase) for phase in phases],
    )
    return made.model_copy(update={"block": block})


def adaptive_plan() -> AdaptivePlan:
    """The same problem, decided on the way: other noise and batches in every phase, and counts bought in between."""

    def policy(phase: int, history: History) -> Knobs | None:
        return Knobs(2.0 + phase, 12.0 - phase) if phase < 3 else None

    return AdaptivePlan.make(
        PoissonSampling(rate=0.5),
        epsilon=50.0,
        delta=1e-5,
        population=24,
        clip_norm=1.0,
        policy=policy,
        noise_multiplier=2.0,
        most_steps=40,
        counts=Counts(noise=10.0),
        every=2.0,
        block=BLOCK,
    )


# What must hold -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Findings:
    """What the journal of releases says about the ledger. `faults` is empty if all is well."""

    charged: int
    released: int
    under_charge: int
    """Releases without a charge of their own: each charged step pays for one release."""
    reused: int
    """Releases whose noise was seen before."""
    out_of_order: int
    """Charges or releases with another event than the plan's at their position."""

    @property
    def faults(self) -> dict[str, int]:
        """The counts that should be 0 and are not."""
        counts = {"under_charge": self.under_charge, "reused": self.reused, "out_of_order": self.out_of_order}
        return {name: count for name, count in counts.items() if count}


def journal(folder: Path) -> list[dict[str, Any]]:
    """The releases in order."""
    path = folder / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def findings(folder: Path, planned: Plan | None = None, address: str = "") -> Findings:
    """Walk the chain of the run's own ledger, or of the one at `address`, and compare."""
    where = address or folder / "run" / "ledger.sqlite"
    events = planned_steps((planned or plan()).event())
    charged: list[Event] = []
    if address or Path(where).exists():
        ledger = Ledger(where)
        ledger.verify()
        for entry in ledger.entries():
            if entry.kind == "reservation":
                block = planned_steps(from_json(entry.content))
                assert entry.steps == len(block)
                charged += block if entry.position == len(charged) else [None] * len(block)  # type: ignore[list-item]
        ledger.close()
    releases = journal(folder)
    positions = Counter(release["position"] for release in releases)
    words = Counter(release["words"] for release in releases)
    wrong = sum(ours != theirs for ours, theirs in zip(charged, events, strict=False)) + max(
        0, len(charged) - len(events)
    )
    wrong += sum(from_json(release["event"]) != events[release["position"]] for release in releases)
    return Findings(
        charged=len(charged),
        released=len(releases),
        under_charge=sum(count - (position < len(charged)) for position, count in positions.items()),
        reused=sum(count - 1 for count in words.values()),
        out_of_order=wrong,
    )


def adaptive_findings(folder: Path) -> Findings:
    """The same of an adaptive run: no plan says what comes next, but each release must be what was charged for it."""
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    ledger.verify()
    charged: list[Event] = []
    wrong = 0
    for entry in ledger.entries():
        if entry.kind == "reservation":
            wrong += entry.position != len(charged)
            charged += planned_steps(from_json(entry.content))
    ledger.close()
    releases = journal(folder)
    positions = Counter(release["position"] for release in releases)
    words = Counter(release["words"] for release in releases)
    wrong += sum(from_json(release["event"]) != charged[release["position"]] for release in releases)
    return Findings(
        charged=len(charged),
        released=len(releases),
        under_charge=sum(count - (position < len(charged)) for position, count in positions.items()),
        reused=sum(count - 1 for count in words.values()),
        out_of_order=wrong,
    )


def planned_steps(event: Any) -> list[Event]:
    """The draw of each step, over a composition of repeats; that of an epoch is there once for each of its steps."""
    return [part.event for part in event.events for _ in range(part.count) for _ in steps_of(part.event)]


# The server ---------------------------------------------------------------------------------------------------------


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


# The child ----------------------------------------------------------------------------------------------------------


def _child(request: dict[str, Any]) -> str:
    """One attempt.

    | key        | meaning |
    |------------|---------|
    | folder     | holds run/, out/ and the journal |
    | resume     | go on with the run |
    | fault      | (place, n): exit there at the n-th visit |
    | plant      | a fault of the library itself, from `_PLANTS` |
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
    _record(folder / "journal.jsonl")
    _instrument(_Fault(*request["fault"]) if request.get("fault") else _Fault("nowhere", 0))
    if request.get("plant"):
        _PLANTS[request["plant"]]()
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


@dataclass
class _Fault:
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


def _record(path: Path) -> None:
    """Note each release as soon as its noise is drawn, before anyone can have seen it."""
    from discreet.training import counts, session

    original = session.gaussian_release

    def recorded(total: Any, receipt: Any, stream: Any, sampler: Any) -> Any:
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

    session.gaussian_release = recorded
    counts.gaussian_release = recorded


def _instrument(fault: _Fault) -> None:
    """Call `hit` at every boundary."""
    import torch
    from sqlalchemy import Engine, event

    from discreet.ledger import Ledger
    from discreet.publication import folder as publication
    from discreet.sampling import AllocationSampler, PoissonSampler, ShuffleSampler
    from discreet.training import run_folder, session

    _HIT[0] = fault.hit
    doing = ["open"]
    for method in ("open_run", "start_attempt", "reserve", "commit"):
        _wrap_ledger(Ledger, method, doing)
    event.listen(Engine, "commit", lambda _connection: hit(f"{doing[0]}: before commit"))
    for sampler in (PoissonSampler, ShuffleSampler, AllocationSampler):
        _around(sampler, "batches", "draw")
    _around(session.Step, "add", "chunk")
    _around(session, "apply", "optimizer")
    _around(run_folder.RunFolder, "create", "folder")
    _around(publication, "_write_together", "publish")
    _around(publication, "_destroy", "destroy", lambda secret: secret.name)

    rename, unlink, save = os.replace, pathlib.Path.unlink, torch.save

    def replace(source: Any, target: Any) -> None:
        name = Path(target).name
        hit(f"rename {name}: before")
        rename(source, target)
        hit(f"rename {name}: after")

    def remove(path: Path, missing_ok: bool = False) -> None:
        hit(f"unlink {path.name}: before")
        unlink(path, missing_ok=missing_ok)

    def write(content: Any, file: Any) -> None:
        hit("checkpoint: before the draft")
        memory = io.BytesIO()
        save(content, memory)
        data = memory.getvalue()
        file.write(data[: len(data) // 2])
        file.flush()
        hit("checkpoint: half a draft")
        file.write(data[len(data) // 2 :])

    os.replace = replace  # type: ignore[assignment]
    pathlib.Path.unlink = remove  # type: ignore[method-assign]
    torch.save = write  # type: ignore[assignment]


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


# Faults of the library, planted to prove that they would be found -----------------------------------------------------


def _plant_key_without_fresh_bytes() -> None:
    from discreet.randomness import stream

    stream.os = _Dull()  # type: ignore[attr-defined]


class _Dull:
    """`os` with an operating system that always says the same."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def urandom(count: int) -> bytes:
        return bytes(count)


def _plant_position_of_the_checkpoint() -> None:
    """The ledger believes the checkpoint instead of its own entries."""
    from discreet.ledger import ledger
    from discreet.training import opening

    kept = [0]
    load = opening.load_checkpoint

    def remembering(path: Path) -> Any:
        checkpoint = load(path)
        if checkpoint is not None:
            kept[0] = checkpoint.position
        return checkpoint

    opening.load_checkpoint = remembering  # type: ignore[assignment]

    def charged(_connection: Any, _run: str) -> int:
        return kept[0]

    ledger._charged = charged
    reserve = ledger.Ledger.reserve

    def counting(self: Any, *args: Any) -> Any:
        receipts = reserve(self, *args)
        kept[0] = receipts[-1].position + 1
        return receipts

    ledger.Ledger.reserve = counting  # type: ignore[method-assign]


def _plant_reserve_without_commit() -> None:
    """Receipts are handed out and the transaction is undone."""
    from discreet.ledger import ledger

    reserve, made = ledger.Ledger.reserve, [0]

    class Undo(Exception):
        pass

    def undone(self: Any, run: str, attempt: int, admission: Any) -> Any:
        kept = self._store.transaction
        receipts: list[Any] = []

        @contextlib.contextmanager
        def transaction() -> Iterator[Any]:
            with kept() as connection:
                yield connection
                raise Undo

        def shifted(position: int) -> Any:
            events = admission(position + made[0])
            receipts.extend(ledger.Receipt(run, attempt, position + made[0] + i, e) for i, e in enumerate(events))
            return events

        self._store.transaction = transaction
        with contextlib.suppress(Undo):
            reserve(self, run, attempt, shifted)
        self._store.transaction = kept
        made[0] += len(receipts)
        return tuple(receipts)

    ledger.Ledger.reserve = undone  # type: ignore[method-assign]


_PLANTS = {
    "key without fresh bytes": _plant_key_without_fresh_bytes,
    "position of the checkpoint": _plant_position_of_the_checkpoint,
    "reserve without commit": _plant_reserve_without_commit,
}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    _serve()
