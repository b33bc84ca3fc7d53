"""Opening a run: a new one, or an existing one with the state of its last checkpoint."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.clipping import ENGINES, Engine
from discreet.core.disk import share_lock
from discreet.core.errors import DiscreetError, LedgerError
from discreet.core.events import Compose, Event
from discreet.core.processes import refuse_several_processes
from discreet.distributed.team import Team
from discreet.ledger import Entry, Ledger
from discreet.plan import AdaptivePlan, Plan
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.run.checkpoint_files import Index, load_checkpoint, parts_in, remove_other_parts
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.run_options import RunOptions

_log = logging.getLogger("discreet")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open run. `key`: the key of its randomness. `run`: its name in the ledger. `checkpoint`: its last one, if it
    is resumed and has one."""

    key: bytes
    run: str
    ledger: Ledger
    checkpoint: Index | None = None

    def check(self, index: Index) -> None:
        """`LedgerError` for a checkpoint of another run, or of more steps than the ledger has charged."""
        charged = self.ledger.charged_steps(self.run)
        if index.run != self.run or index.position > charged:
            raise LedgerError(
                f"the checkpoint has {index.position} steps but the ledger {self.ledger.shown} charged {charged} for "
                "the run: the ledger is an older copy; restore the newest one, nothing was released"
            )


@contextmanager
def started(folder: RunFolder, plan: Plan | AdaptivePlan, options: RunOptions) -> Iterator[Opened]:
    """A new run: its folder, its key, its name and its entry in the ledger (by default a ledger in the folder)."""
    key = folder.create()
    try:
        if options.on_open is not None:
            options.on_open()
        charged = Ledger(options.ledger or folder.ledger)
        try:
            run = charged.open_run(
                plan.fingerprint(),
                plan.guarantee(),
                options.dataset_id,
                plan.filter,
                lambda run: folder.remember(run, charged.where),
                _released(plan),
            )
        except BaseException:
            charged.close()
            raise
    except BaseException:
        remove_unbegun(folder, options)
        raise
    with share_lock(folder.path), closing(charged):
        yield Opened(key, run, charged)


def remove_unbegun(folder: RunFolder, options: RunOptions) -> None:
    """Remove the folder of a run that failed before a step or a query of its own was charged.

    It stays if a ledger elsewhere knows the run, or cannot be asked: the whole run may be charged there. That is so too
    where opening it failed, if only the answer of the database was lost.
    """
    if options.ledger is None or not folder.identity.exists():
        shutil.rmtree(folder.path)
        return
    try:
        _, run, where = folder.recall()
        with closing(Ledger(where, create=False)) as ledger:
            known = len(ledger.entries(run)) > 0
    except DiscreetError as error:
        _log.warning("the run folder %s stays, as its ledger cannot be asked whether it knows the run", folder.path)
        _log.debug("%s", error)
        return
    if known:
        _log.warning("the run folder %s stays, as its ledger knows the run, and may have charged it", folder.path)
    else:
        shutil.rmtree(folder.path)


def check_room(where: str | None, dataset: str, plan: Callable[[], Plan | AdaptivePlan]) -> None:
    """Refuse a run that its data set's budget does not admit, before data is read. Opening it decides."""
    if where is None or not dataset or not ("://" in where or Path(where).exists()):
        return
    with closing(Ledger(where, create=False)) as ledger:
        if ledger.budget(dataset)[0] is not None:
            wanted = plan()
            ledger.check_room(wanted.guarantee(), dataset, _released(wanted))


def _released(plan: Plan | AdaptivePlan) -> Event:
    """All that a fixed plan releases; of an adaptive one, one event of each kind as it starts."""
    if isinstance(plan, Plan):
        return plan.event()
    bought = [one for one in (*plan.metrics, plan.counts, plan.line_search) if one is not None]
    return Compose((*plan.before, plan.first_event, *(one.event for one in bought)))


@contextmanager
def resumed(folder: RunFolder) -> Iterator[Opened]:
    """The run in the folder, with its last checkpoint, if any. The checkpoint must not be ahead of the ledger.

    All processes that have the run open share the lock of its folder. What another attempt left is removed by a process
    that was alone for a moment, and as it was then: a second process may resume the run, whose first attempt then ends
    at its next charge, but may still write a checkpoint of steps that were charged before.
    """
    refuse_several_processes()
    key, run, where = folder.recall()
    left: list[Path] = []

    def look() -> None:
        folder.remove_drafts()
        left.extend(parts_in(folder.path))

    with share_lock(folder.path, look), closing(Ledger(where, create=False)) as ledger:
        ledger.verify()
        checkpoint = load_checkpoint(folder.checkpoint)
        found = Opened(key, run, ledger, checkpoint)
        if checkpoint is not None:
            found.check(checkpoint)
        if left:
            remove_other_parts(folder.checkpoint, () if checkpoint is None else checkpoint.parts, left)
        yield found


def record_of(where: str, run: str, position: int, attempt: int) -> tuple[Entry, ...]:
    """All entries of a run, which must hold at least `position` charged steps, and no later start than `attempt`: to
    publish destroys the key, with which that one goes on."""
    with closing(Ledger(where, create=False)) as ledger:
        if not ledger.charged_steps(run) >= position:
            raise LedgerError(f"the ledger {ledger.shown} has lost charges of this run; restore the newest copy")
        entries = tuple(ledger.entries(run))
    if attempt < sum(entry.kind == "attempt" for entry in entries) - 1:
        raise LedgerError(
            f"run {run[:8]} was started again, and goes on there; this start has no result to publish. To publish what "
            "there is, end the other and resume the run"
        )
    return entries


def with_slack_of(engine: Engine, record: Sequence[Entry]) -> Engine:
    """The engine with the float slack of the run's first attempt, because a new measurement may differ slightly."""
    started = (entry.content for entry in record if entry.kind == "attempt" and "float_bits" in entry.content)
    bits = next((content["float_bits"] for content in started), None)
    if isinstance(bits, int) and engine.float_bits is not None and abs(bits - engine.float_bits) <= 1:
        return replace(engine, float_bits=bits)
    return engine


def as_begun(team: Team, run: RunOptions, options: EngineOptions) -> EngineOptions:
    """The options to go on with a run as its first attempt is recorded: "auto" becomes the engine that it had, and as
    many lanes share a batch as did."""
    first = team.told("the run so far", lambda: dict(_first_attempt(run.folder)))
    team.keep_lanes(first, run.lanes)
    return replace(options, name=first["engine"]) if options.name == AUTO and first else options


def _first_attempt(folder: str | Path | None) -> Mapping[str, Any]:
    """The record of the first attempt that trained in the run folder; empty if there is none.

    A folder without a run is left for `resume` to refuse. `InputError` if the checkpoint of the run is damaged, before
    any row is read.
    """
    if folder is None:
        return {}
    kept = RunFolder(Path(folder))
    try:
        _, run, where = kept.recall()
        with closing(Ledger(where, create=False)) as ledger:
            attempts = [entry.content for entry in ledger.entries(run) if entry.kind == "attempt"]
    except DiscreetError:
        return {}
    load_checkpoint(kept.checkpoint)
    return next((content for content in attempts if content.get("engine") in ENGINES), {})
