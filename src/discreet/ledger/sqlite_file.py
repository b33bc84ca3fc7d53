"""SQLite under a ledger: its file appears whole, and its writers take turns."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from discreet.core.disk import draft_folder, sync_folder

PATIENCE_SECONDS = 120
"""How long a writer waits for its turn before it gives up."""

_NAP_SECONDS = 0.0005, 0.003

_SHORTEST = 512
"""The bytes of the smallest database."""


def put_whole(path: Path, engine: Callable[[str], Engine], fill: Callable[[Connection], object]) -> None:
    """Put a database that `fill` fills at a path where there is none: it appears whole, or not at all.

    Another's that appears meanwhile stays. Where this fails (a folder that is not there, a disk that is full or has
    no hard links), nothing is there, and SQLite itself makes the file or says why it cannot. `OSError` if the name
    cannot be made durable.
    """
    with suppress(OSError, SQLAlchemyError, sqlite3.Error), draft_folder(path.parent, path.name) as draft:
        made = engine(str(draft / path.name))
        try:
            with made.begin() as connection:
                fill(connection)
        finally:
            made.dispose()  # which brings SQLite's log into the file
        with suppress(FileExistsError):
            os.link(draft / path.name, path)
        shutil.rmtree(draft, ignore_errors=True)
    if path.exists():
        sync_folder(path.parent)


def too_short(path: str) -> bool:
    """Whether a file is too short for a database."""
    return Path(path).stat().st_size < _SHORTEST


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
