"""Files that are no ledgers, and where a ledger is."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from ledgers import PLAN, filled, guarantee, refused, sql, three
from sqlalchemy import Connection

from discreet.core.errors import BudgetExhausted
from discreet.ledger import Budget, Ledger, sqlite_file, store
from discreet.ledger.entries_table import metadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_what_is_no_database(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"this is not a database, but it is long enough to be looked at" * 20)
    before = path.read_bytes()
    refused(lambda: Ledger(path), "not a database", "name another one")
    assert path.read_bytes() == before
    refused(lambda: Ledger(tmp_path), "unable to open")
    refused(lambda: Ledger(tmp_path / "nowhere" / "ledger.sqlite"), "nowhere", "check that the folder exists")
    refused(lambda: Ledger(""), "unable to open")


def test_a_damaged_file(path: Path) -> None:
    run, _ = filled(path)
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)

    def use() -> None:
        ledger = Ledger(path)
        try:
            ledger.reserve(run, 0, three)
        finally:
            ledger.close()

    refused(use, "ledger")


def test_another_table_of_that_name(path: Path) -> None:
    sql(path, "CREATE TABLE discreet_entries (number INTEGER)")
    refused(lambda: Ledger(path).verify(), "no such column")


@pytest.mark.parametrize("address", ["mysql://host/db", "sqlite:///x", "https://host", "postgres://host/db"])
def test_addresses_that_are_not_served(address: str) -> None:
    refused(lambda: Ledger(address), "postgresql://")
    refused(lambda: Ledger(address), "postgresql://..., not postgres://...")


@pytest.mark.parametrize("name", ["what?mode=memory", "50%20percent", "a b#c", "semi;colon", ":memory:", "file:x"])
def test_the_ledger_is_where_its_path_says(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for where in (folder / "ledger.sqlite", tmp_path / f"{name}.sqlite"):
        filled(where)
        assert len(sql(where, "SELECT number FROM discreet_entries")) == 9
    monkeypatch.chdir(tmp_path / name)
    for relative in (name, f"{name}/../other"):
        (folder / name).unlink(missing_ok=True)
        if "/" in relative:
            (folder / name).mkdir()
        filled(relative)
        assert len(sql(Path(relative), "SELECT number FROM discreet_entries")) == 9


def test_a_relative_path_means_the_same_file_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.sqlite")
    run = ledger.open_run(PLAN, guarantee())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = Ledger(ledger.where)
    assert again.start_attempt(run, PLAN) == 0
    ledger.close()
    again.close()


def test_a_ledger_that_must_be_there_is_not_made(path: Path) -> None:
    refused(lambda: Ledger(path, create=False), "there is no ledger", "restore it")
    assert not path.exists()


LOST = "holds no table of entries: what it was charged is lost"


@pytest.mark.parametrize("left", [0, 1, 16, 99, 511])
def test_a_ledger_that_lost_nearly_all_its_bytes_is_not_taken_for_a_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The next test waits as long as users do."""
    Ledger(path).close()
    monkeypatch.setattr(store, "_BEING_MADE_SECONDS", 0.1)
    path.write_bytes(path.read_bytes()[:left])
    refused(lambda: Ledger(path), LOST, "restore both")
    refused(lambda: Ledger(path, create=False), LOST)
    assert path.stat().st_size == left


def test_a_database_of_something_else_is_no_ledger(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    refused(lambda: Ledger(path), LOST)


def test_a_copy_without_the_log_beside_it_has_budgets_and_runs(path: Path, tmp_path: Path) -> None:
    """While a ledger is open, what was charged last lies in the log; budgets and runs are brought into the file."""
    ledger = Ledger(path)
    ledger.set_budget("patients", Budget(1.0, 1e-4))
    ledger.open_run(PLAN, guarantee(0.7), "patients")
    shutil.copy(path, copied := tmp_path / "copied.sqlite")
    with contextlib.closing(Ledger(copied)) as copy:
        assert copy.entries() == ledger.entries()
        with pytest.raises(BudgetExhausted):
            copy.open_run(PLAN, guarantee(0.7), "patients")
    ledger.close()


def test_a_ledger_whose_first_page_another_process_writes_is_waited_for(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.sqlite"
    Ledger(made).close()
    path.touch()
    threading.Timer(0.3, lambda: path.write_bytes(made.read_bytes())).start()
    Ledger(path).close()


def test_a_ledger_that_could_not_be_made_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its empty file would be taken for one that lost its entries."""
    real = metadata.create_all

    def full(connection: Connection) -> None:
        real(connection)
        raise sqlite3.OperationalError("database or disk is full")

    def refused_too(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        sqlite_file.put_whole(path, store._engine, full)
    assert list(path.parent.iterdir()) == []
    monkeypatch.setattr("os.link", refused_too)  # SQLite makes it in its place
    Ledger(path).close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_ledger_that_appears_meanwhile_stays(path: Path) -> None:
    filled(path)
    before = path.read_bytes()
    sqlite_file.put_whole(path, store._engine, metadata.create_all)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_log_of_a_lost_ledger_is_not_played_into_a_new_one(path: Path, tmp_path: Path) -> None:
    ledger = Ledger(path)
    ledger.set_budget("patients", Budget(1.0, 1e-4))
    lost = tmp_path / "lost"
    lost.mkdir()
    log = shutil.copy(f"{path}-wal", lost / "ledger.sqlite-wal")
    ledger.close()
    refused(lambda: Ledger(lost / "ledger.sqlite"), "the log of one beside it, ledger.sqlite-wal", "move the log away")
    assert [one.name for one in lost.iterdir()] == [log.name]


def test_the_draft_of_a_killed_process_is_no_second_name_of_a_ledger(path: Path) -> None:
    filled(path)
    draft = path.parent / f".{path.name}.draft-killed"
    draft.mkdir()
    (draft / path.name).hardlink_to(path)
    Ledger(path).close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_link_to_nowhere_becomes_one_to_a_ledger(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    filled(link)
    assert link.is_symlink()
    assert len(sql(path, "SELECT number FROM discreet_entries")) == 9


@pytest.mark.parametrize(("name", "said"), [("n" * 256, "name too long"), ("n" * 252, "name"), ("a\0b", "null")])
def test_a_name_that_cannot_be(tmp_path: Path, name: str, said: str) -> None:
    refused(lambda: Ledger(tmp_path / name), said)
    assert list(tmp_path.iterdir()) == []


def test_budgets_reach_the_file_when_others_have_read_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they read, or bring their own there, SQLite does less than it was asked to."""
    monkeypatch.setattr(sqlite_file, "_SETTLING_SECONDS", 60.0)
    ledger, other = Ledger(path), sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM discreet_entries").fetchone()
    threading.Timer(0.03, lambda: other.execute("COMMIT")).start()
    ledger.set_budget("patients", Budget(1.0, 1e-4))
    shutil.copy(path, copied := tmp_path / "copied.sqlite")
    with contextlib.closing(Ledger(copied)) as copy:
        assert copy.entries() == ledger.entries()
    ledger.close()
    other.close()


def test_a_statement_is_compiled_once_for_all_ledgers(path: Path, tmp_path: Path) -> None:
    filled(path)
    known = [*sqlite_file.COMPILED]
    assert known
    filled(tmp_path / "another.sqlite")
    assert [*sqlite_file.COMPILED] == known
