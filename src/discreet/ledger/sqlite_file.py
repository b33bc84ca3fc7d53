"""SQLite under a ledger: its file appears whole, and its writers take turns."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import registry
from sqlalchemy.exc import SQLAlchemyError

from discreet.core.disk import draft_folder, real, remove_drafts, sync_folder
from discreet.core.errors import LedgerError
from discreet.ledger.database_errors import explained

DRIVER = "sqlite+ledger"
registry.register("sqlite.ledger", "discreet.ledger.sqlite_dialect", "Dialect")  # loaded with the first ledger

COMPILED: dict[Any, Any] = {}
"""The statements of all ledgers of this process in files, as they were compiled; a few dozen."""

PATIENCE_SECONDS = 120
"""The time that a writer waits for its turn before it gives up."""

_NAP_SECONDS = 0.0005, 0.003

_SETTLING_SECONDS = 0.1
"""The longest time that `settle` waits for other processes that read or write the file."""

_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV)
"""Errors of a file system without hard links."""

_NO_FORCE = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL)
"""Errors of a folder that cannot be opened, or whose names cannot be forced to the disk."""

_SHORTEST = 512
"""The bytes of the smallest database."""


def put_whole(path: Path, engine: Callable[[str], Engine], fill: Callable[[Connection], object]) -> None:
    """Put a database that `fill` fills at a path where there is none: it appears whole, or not at all.

    Another's that appears meanwhile stays. On a disk without hard links nothing is put: SQLite makes the file in its
    place. `OSError` or an error of the database if it cannot be made; `LedgerError` if the log of a lost one is there.
    """
    path = real(path)
    if path.exists():
        if path.stat().st_nlink > 1:  # a process was killed before it removed its draft, which is another name of it
            remove_drafts(path.parent, path.name)
        return
    _refuse_log_of_lost(path)
    with draft_folder(path.parent, path.name) as draft:
        made = engine(str(draft / path.name))
        try:
            with made.begin() as connection:
                fill(connection)
        finally:
            made.dispose()  # which brings SQLite's log into the file
        if [one.name for one in draft.iterdir()] != [path.name]:  # or fails to, and says nothing
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _link(draft / path.name, path)
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_log_of_lost(path: Path) -> None:
    """SQLite would play the log of a file that is gone into a new one."""
    log = path.with_name(f"{path.name}-wal")
    try:
        written = log.stat().st_size
    except FileNotFoundError:
        return
    if written and not path.exists():  # else another process made both meanwhile
        raise LedgerError(
            f"there is no ledger at {path}, but the log of one beside it, {log.name}; restore the file, or move the "
            "log away if nothing was ever charged there"
        )


def _link(draft: Path, path: Path) -> None:
    """Give the file its name, durably, unless another has it."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno in _NO_LINKS:
            return
        raise
    try:
        sync_folder(path.parent)
    except OSError as error:  # SQLite forces the names too, with its first log, where that can be done
        if error.errno not in _NO_FORCE:
            raise


def settle(engine: Engine) -> None:
    """Bring what is committed from SQLite's log into the file. What cannot be now, because another process reads, is
    later; it is durable in the log."""
    patient_until = time.monotonic() + _SETTLING_SECONDS
    with suppress(SQLAlchemyError, sqlite3.Error), closing(engine.raw_connection()) as connection:
        while True:
            busy, logged, done = connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if (not busy and logged == done) or time.monotonic() > patient_until:
                return
            time.sleep(random.uniform(*_NAP_SECONDS))


def too_short(path: str) -> bool:
    """Whether a file is too short for a database."""
    return Path(path).stat().st_size < _SHORTEST


def identity(path: str) -> tuple[int, int] | None:
    """The file that is at a path now, whatever names it has; None if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise explained(error, path) from error
    return found.st_dev, found.st_ino


def take_turn(connection: Connection) -> None:
    """Take SQLite's write lock. Frequent tries keep the queue fair; SQLite's own wait sleeps longer each time."""
    patient_until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            connection.connection.cursor().execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not time.monotonic() < patient_until:
                raise
            time.sleep(random.uniform(*_NAP_SECONDS))


def configure(connection: Any, _record: object) -> None:
    """Let `begin` take the write lock itself, and make every commit reach the disk."""
    connection.isolation_level = None
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = EXTRA")  # as FULL, and durable without WAL as well
        for one in ("fullfsync", "checkpoint_fullfsync"):  # macOS: past the disk's own memory; nothing elsewhere
            connection.execute(f"PRAGMA {one} = ON")
        connection.execute("PRAGMA busy_timeout = 0")  # from here on `take_turn` waits
    except BaseException:
        connection.close()  # nobody else would close it
        raise
