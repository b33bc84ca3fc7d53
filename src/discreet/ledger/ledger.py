"""Reservations in a database: what is not charged, durably, is not drawn."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from discreet.core.errors import LedgerError
from discreet.core.events import Compose, Event, Repeat, from_json, to_json
from discreet.core.release import Receipt
from discreet.ledger.schema import attempts, metadata, reservations, runs

Admission = Callable[[int], Sequence[Event]]
"""Given how many steps are charged, the events to charge next; raises `BudgetExhausted` to refuse."""


class Ledger:
    """What runs have spent, in one SQLite file.

    A charge is durable (write-ahead log, full synchronisation) when `reserve` returns, and is never taken
    back: neither a crash nor an undrawn step lowers it.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._engine = create_engine(URL.create("sqlite", database=str(self.path)))
        event.listen(self._engine, "connect", _configure)
        event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with self._transaction() as connection:
            metadata.create_all(connection)

    def open_run(self, plan_fingerprint: str) -> str:
        """Enter a new run of a plan and return its identifier."""
        run = secrets.token_hex(16)
        with self._transaction() as connection:
            connection.execute(runs.insert().values(id=run, plan_fingerprint=plan_fingerprint))
        return run

    def start_attempt(self, run: str) -> int:
        """Enter a new start of `run` and return its number, from 0."""
        with self._transaction() as connection:
            if connection.execute(select(runs.c.id).where(runs.c.id == run)).first() is None:
                raise LedgerError(f"the ledger {self.path} knows no run {run}")
            last = connection.execute(select(func.max(attempts.c.number)).where(attempts.c.run == run)).scalar()
            number = 0 if last is None else int(last) + 1
            connection.execute(attempts.insert().values(run=run, number=number))
        return number

    def reserve(self, run: str, attempt: int, admission: Admission) -> tuple[Receipt, ...]:
        """Charge the next block of steps and return one receipt per step.

        `admission` is called inside the write transaction with the number of steps charged so far, so no two
        processes can be granted the same steps. If it refuses, nothing is written.
        """
        with self._transaction() as connection:
            position = _charged(connection, run)
            events = tuple(admission(position))
            if not events:
                raise LedgerError(f"nothing was asked for at position {position}; a charge needs at least one event")
            connection.execute(
                reservations.insert().values(
                    run=run,
                    attempt=attempt,
                    position=position,
                    steps=len(events),
                    event=json.dumps(to_json(_grouped(events))),
                    released=0,
                )
            )
        return tuple(Receipt(run, attempt, position + i, one) for i, one in enumerate(events))

    def commit(self, receipt: Receipt) -> None:
        """Note that every step up to that of `receipt` was released. The charge does not depend on it."""
        table = reservations
        holds = (table.c.position <= receipt.position) & (table.c.position + table.c.steps > receipt.position)
        with self._transaction() as connection:
            connection.execute(
                update(table)
                .where((table.c.run == receipt.run) & holds)
                .values(released=receipt.position + 1 - table.c.position)
            )

    def charged_steps(self, run: str) -> int:
        """How many steps of `run` are charged, drawn or not."""
        with self._transaction() as connection:
            return _charged(connection, run)

    def spent(self, run: str) -> Event:
        """Everything charged to `run`, as one event."""
        query = select(reservations.c.event).where(reservations.c.run == run).order_by(reservations.c.position)
        with self._transaction() as connection:
            rows = connection.execute(query).scalars().all()
        return Compose(tuple(from_json(json.loads(row)) for row in rows))

    def close(self) -> None:
        """Release the file."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise LedgerError(
                f"cannot use the ledger {self.path}: {cause}; nothing was released without a charge"
            ) from error


def _configure(connection: Any, _record: object) -> None:
    """Let `begin` take the write lock itself, and make every commit reach the disk."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _charged(connection: Connection, run: str) -> int:
    total = connection.execute(select(func.sum(reservations.c.steps)).where(reservations.c.run == run)).scalar()
    return int(total or 0)


def _grouped(events: Sequence[Event]) -> Event:
    runs_of_equal = ((one, len(list(group))) for one, group in itertools.groupby(events))
    return Compose(tuple(Repeat(one, count) for one, count in runs_of_equal))
