"""The database under the ledger: SQLite in a file, or PostgreSQL for a team; one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, ColumnElement, Connection, Engine, create_engine, event, func, insert, inspect, select, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, ProgrammingError, SQLAlchemyError

from discreet.core.errors import LedgerError
from discreet.ledger import sqlite_file
from discreet.ledger.chain import Entry, check_seal
from discreet.ledger.database_errors import explained
from discreet.ledger.entries_table import ENDS, LATER_INDEXES, entries, metadata
from discreet.ledger.names import compared
from discreet.ledger.sqlite_file import configure, take_turn

_BEING_MADE_SECONDS = 2.0
"""The time that another process may take to make the table of a new ledger, where SQLite makes it in place."""

_PAGE, _FEW = 5000, 5000
"""Entries per page of a walk; and so many new entries at most are read whole, instead of by an index."""

_NAMES = text(
    """
    WITH RECURSIVE names(name) AS (
        SELECT min(dataset) FROM discreet_entries WHERE kind = :kind
        UNION ALL
        SELECT (SELECT min(dataset) FROM discreet_entries WHERE kind = :kind AND dataset > name) FROM names
        WHERE name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL
    """
)


class Store:
    """Transactions over the table of entries. Every database error becomes a `LedgerError` with a hint."""

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        self.where = str(where) if "://" in str(where) else str(Path(where).absolute())
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._engine = _engine(self.where)
        weakref.finalize(self, _let_go, self._engine, self._process).atexit = False
        self._postgres = self._engine.dialect.name == "postgresql"
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A write transaction that excludes every other; durable when it ends, undone if it fails."""
        with self._begin() as connection:
            if self._postgres:
                connection.exec_driver_sql(f"LOCK TABLE {entries.name} IN EXCLUSIVE MODE")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that writes nothing. PostgreSQL lets others write meanwhile; SQLite lets them wait."""
        with self._begin() as connection:
            yield connection

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        if os.getpid() != self._process:
            raise LedgerError("the ledger was opened before this process was forked; open it again here")
        try:
            self._check_in_place()  # SQLite would make a new file
            with self._engine.begin() as connection:
                self._check_in_place()  # the turn was waited for
                if self._postgres:
                    connection.exec_driver_sql(
                        f"SELECT set_config('lock_timeout', '{sqlite_file.PATIENCE_SECONDS}s', true),"
                        " set_config('synchronous_commit', 'on', true)"
                    )
                yield connection
            self._check_in_place()  # before anybody goes by what was written
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self._explained(error) from error

    def _check_in_place(self) -> None:
        """SQLite goes on with a file that lost its name, so that its charges are in no ledger."""
        if self._file is not None and sqlite_file.identity(self.where) != self._file:
            raise LedgerError(
                f"the ledger {self.shown} was removed or replaced while it was open; restore the newest file and its "
                "-wal, and start again; nothing more was charged"
            )

    def _prepare(self, create: bool) -> None:
        if not create and not self._exists():
            raise LedgerError(
                f"there is no ledger at {self.shown}; restore it, or name the one that the run began with"
            )
        if not self._postgres:
            if create:
                self._make_whole()
            self._file = sqlite_file.identity(self.where)
            self._refuse_without_entries()
        with self._begin() as connection:
            if self._postgres:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7233910461)")  # one process creates at a time
            metadata.create_all(connection)
            self._add_indexes(connection)
        if not self._postgres:
            self._file = self._file or sqlite_file.identity(self.where)  # where SQLite made it in its place

    def _add_indexes(self, connection: Connection) -> None:
        """Ledgers of early versions lack some. Without the right to make them, all is found too, more slowly."""
        there = {one["name"] for one in inspect(connection).get_indexes(entries.name)}
        for index in LATER_INDEXES:
            if index.name not in there:
                with suppress(ProgrammingError), connection.begin_nested():
                    index.create(connection)

    def _exists(self) -> bool:
        if self._postgres:
            return self._holds_entries()
        try:
            return Path(self.where).exists()
        except OSError as error:
            raise self._explained(error) from error

    def _make_whole(self) -> None:
        """Make a file with the table of entries where there is none."""
        try:
            sqlite_file.put_whole(Path(self.where), _engine, metadata.create_all)
        except (OSError, ValueError, SQLAlchemyError, sqlite3.Error) as error:
            raise self._explained(error) from error

    def _refuse_without_entries(self) -> None:
        """A file without the table was cut, or copied without the `-wal` beside it, and SQLite would make a new ledger
        of it."""
        patient_until = time.monotonic() + _BEING_MADE_SECONDS
        while Path(self.where).is_file() and not self._holds_entries():
            if time.monotonic() > patient_until:
                raise LedgerError(
                    f"the ledger {self.shown} holds no table of entries: what it was charged is lost, or in the -wal "
                    "file that was beside it; restore both, or delete both if nothing was ever charged there"
                )
            time.sleep(_BEING_MADE_SECONDS / 100)

    def settle(self) -> None:
        """Bring what is committed into the file of an SQLite ledger, so that a plain copy of the file has it too. It
        is durable before."""
        if not self._postgres:
            sqlite_file.settle(self._engine)

    def _holds_entries(self) -> bool:
        if not self._postgres and sqlite_file.too_short(self.where):
            return False  # SQLite would make a database of it
        with self._begin() as connection:
            return connection.dialect.has_table(connection, entries.name)

    def close(self) -> None:
        """Release files and connections."""
        self._engine.dispose()

    def _explained(self, error: Exception) -> LedgerError:
        return explained(error, self.shown)

    @property
    def shown(self) -> str:
        """The address without its password, for messages."""
        return self._engine.url.render_as_string(hide_password=True) if self._postgres else self.where


def append(connection: Connection, entry: Entry) -> None:
    """Write an entry."""
    connection.execute(insert(entries), {name: getattr(entry, name) for name in Entry.__slots__})


def ends(connection: Connection, number: int) -> tuple[Entry | None, Entry | None]:
    """The entry of this number, and the newest."""
    found = [Entry(*row) for row in connection.execute(ENDS, {"number": number})]
    return next((one for one in found if one.number == number), None), found[-1] if found else None


def find(connection: Connection, **columns: str) -> Sequence[Entry]:
    """The entries whose columns have these values, oldest first."""
    query = select(entries).order_by(entries.c.number)
    for name, value in columns.items():
        query = query.where(entries.c[name] == value)
    return [Entry(*row) for row in connection.execute(query)]


def walk(connection: Connection, first: int | None) -> list[Entry]:
    """The next entries, from number `first` or the very first on: as many as are read at once, none at the end."""
    query = select(entries).order_by(entries.c.number).limit(_PAGE)
    found = connection.execute(query if first is None else query.where(entries.c.number >= first))
    return [Entry(*row) for row in found.all()]


def names(connection: Connection, kind: str) -> list[str]:
    """The data sets that entries of a kind name, each once, by jumps through the index."""
    found = [row[0] for row in connection.execute(_NAMES, {"kind": kind})]
    for name in found:
        if not isinstance(name, str):  # the library writes text only
            for entry in find(connection, kind=kind, dataset=name):
                check_seal(entry)
    return found


def forms(connection: Connection, kind: str, dataset: str) -> list[str]:
    """The forms in which entries of a kind name a data set."""
    wanted = compared(dataset)
    return [name for name in names(connection, kind) if name == dataset or compared(name) == wanted]


def named(connection: Connection, kind: str, dataset: str) -> list[Entry]:
    """The entries of a kind on a data set, in whatever form its name is stored, oldest first."""
    of_it = entries.c.kind == kind, entries.c.dataset.in_(forms(connection, kind, dataset))
    return [Entry(*row) for row in connection.execute(select(entries).where(*of_it).order_by(entries.c.number))]


def newest(connection: Connection, kind: str, dataset: str) -> Entry | None:
    """The newest entry of a kind on a data set, in whatever form its name is stored."""
    found = [
        row
        for form in forms(connection, kind, dataset)
        for row in connection.execute(
            select(entries)
            .where(entries.c.kind == kind, entries.c.dataset == form)
            .order_by(entries.c.number.desc())
            .limit(1)
        )
    ]
    return max((Entry(*row) for row in found), key=lambda entry: entry.number, default=None)


def reservations(connection: Connection, run: str, *, after: int) -> Iterator[Entry]:
    """The reservations of a run beyond entry `after`, oldest first."""
    query = select(entries).where(entries.c.run == run, entries.c.kind == "reservation", entries.c.number > after)
    for row in connection.execute(query.order_by(entries.c.number)):
        yield Entry(*row)


def runs_on(connection: Connection, dataset: str, first: int) -> Iterator[Entry]:
    """The entries from number `first` on that open runs on a data set, oldest first."""
    ours = entries.c.kind == "run", entries.c.dataset.in_(forms(connection, "run", dataset))
    query = select(entries).where(*ours, entries.c.number >= first).order_by(entries.c.number)
    for row in connection.execute(query):
        yield Entry(*row)


def charges_on(connection: Connection, dataset: str, first: int, end: int) -> Iterator[Entry]:
    """The entries from number `first` on that open or charge runs on a data set, oldest first. The next gets `end`.

    Few new entries are read whole and sorted out here: a database cannot know which of two indexes is short.
    """
    ours = set(forms(connection, "run", dataset))
    if end - first > _FEW:
        runs = select(entries.c.run).where(entries.c.kind == "run", entries.c.dataset.in_(ours))
        query = select(entries).where(
            entries.c.number >= first, entries.c.kind.in_(("run", "reservation")), entries.c.run.in_(runs)
        )
        for row in connection.execute(query.order_by(entries.c.number)):
            yield Entry(*row)
        return
    query = select(entries).where(entries.c.number >= first).order_by(entries.c.number)
    found = [Entry(*row) for row in connection.execute(query)]
    charged = {entry.run for entry in found if entry.kind == "reservation"}
    opened = select(entries.c.run, entries.c.dataset).where(entries.c.kind == "run", entries.c.run.in_(charged))
    mine = {row.run for row in connection.execute(opened) if row.dataset in ours} if charged else set()
    for entry in found:
        if (entry.kind == "run" and entry.dataset in ours) or (entry.kind == "reservation" and entry.run in mine):
            yield entry


def count(connection: Connection, first: int) -> int:
    """The number of entries from number `first` on, or in all: without a condition the smallest index tells."""
    query = select(func.count()).select_from(entries)
    return int(connection.execute(query.where(entries.c.number >= first) if first else query).scalar() or 0)


def figures(
    connection: Connection, aggregates: Sequence[ColumnElement[int]], *where: ColumnElement[bool]
) -> tuple[int, ...]:
    """Aggregates over the entries that meet all conditions; 0 over none."""
    row = connection.execute(select(*aggregates).select_from(entries).where(*where)).one()
    return tuple(int(value or 0) for value in row)


def _let_go(engine: Engine, process: int) -> None:
    """Release the connections of a ledger that nobody closed, in the process that opened them: another one that was
    forked would end those of PostgreSQL here."""
    if os.getpid() == process:
        engine.dispose()


def _engine(where: str) -> Engine:
    try:
        if "://" not in where:
            address = URL.create(sqlite_file.DRIVER, database=where)
            engine = create_engine(address, execution_options={"compiled_cache": sqlite_file.COMPILED})
            event.listen(engine, "connect", configure)
            event.listen(engine, "begin", take_turn)
            return engine
        if where.startswith(("postgresql://", "postgresql+psycopg://")):
            url = where.replace("postgresql://", "postgresql+psycopg://", 1)
            # Sees what was committed during the wait; a connection that the server closed meanwhile is made anew.
            return create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise LedgerError(f"PostgreSQL needs {error.name}; install discreet[postgres]") from None
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise LedgerError(f"cannot use the ledger address: {error}; give a path or postgresql://...") from None
    raise LedgerError(
        "a ledger is a file (give a path) or a PostgreSQL database (postgresql://..., not postgres://...)"
    )
