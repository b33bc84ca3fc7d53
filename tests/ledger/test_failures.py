"""When the disk, the clock or another process fails: one line with a hint, nothing lost, nothing charged twice."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ledgers import PLAN, STEP, filled, guarantee, refused, sql, three, whole

from discreet.core.errors import BudgetExhausted, LedgerError
from discreet.core.events import Event
from discreet.ledger import Ledger, chain, sqlite_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def reserve_until_it_fails(ledger: Ledger, run: str) -> tuple[int, LedgerError]:
    """(steps granted, the error)."""
    granted = 0
    for _ in range(2000):
        try:
            granted += len(ledger.reserve(run, 0, three))
        except LedgerError as error:
            return granted, error
    raise AssertionError("it never failed")


# Disks --------------------------------------------------------------------------------------------------------------


def test_a_database_that_may_not_grow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    ledger.start_attempt(run, PLAN)
    with ledger._store.transaction() as connection:
        pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    granted, error = reserve_until_it_fails(ledger, run)
    assert granted > 0
    assert "disk is full" in str(error)
    assert "free some space" in str(error)
    assert "\n" not in str(error)
    assert ledger.charged_steps(run) == granted
    with ledger._store.transaction() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    assert [receipt.position for receipt in ledger.reserve(run, 0, three)] == [granted, granted + 1, granted + 2]
    ledger.close()
    whole(path, run, granted + 3)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 240 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted("mount", "-t", "tmpfs", "-o", "size=240k", "tmpfs", str(folder), at=folder):
        yield folder


class mounted:  # noqa: N801
    """Mount for a while, or skip the test."""

    def __init__(self, *command: str, at: Path) -> None:
        self._command, self._at = command, at

    def __enter__(self) -> None:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("mounting needs root")
        if subprocess.run(self._command, capture_output=True, check=False).returncode != 0:
            pytest.skip("this machine does not let root mount")

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self._at)], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    path = small_disk / "ledger.sqlite"
    filler = small_disk / "filler"
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    ledger.start_attempt(run, PLAN)
    filler.write_bytes(bytes(1 << 15))
    granted, error = reserve_until_it_fails(ledger, run)
    assert granted > 0
    assert "\n" not in str(error)
    assert "free some space" in str(error) or "a full one is reported so too" in str(error)
    filler.unlink()
    before = ledger.charged_steps(run)
    assert before == granted
    assert ledger.reserve(run, 0, three)[0].position == granted
    ledger.close()
    whole(path, run, granted + 3)


def test_a_disk_with_no_room_for_a_ledger(small_disk: Path) -> None:
    descriptor = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)
    refused(lambda: Ledger(small_disk / "ledger.sqlite"), "ledger.sqlite")


@pytest.mark.parametrize("free", range(0, 104, 8))
def test_a_disk_with_hardly_any_room_keeps_nothing_that_is_no_ledger(small_disk: Path, free: int) -> None:
    """At any number of free kilobytes: it is there whole, or can be made when there is room."""
    filler, path = small_disk / "filler", small_disk / "ledger.sqlite"
    filler.write_bytes(bytes((240 - free) << 10))
    said = ""
    try:
        Ledger(path).close()
    except LedgerError as error:
        said = str(error)
    assert said == "" or "free some space" in said or "a full one is reported so too" in said
    filler.unlink()
    filled(path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "ledger.sqlite"
    run, _ = filled(path)

    def check() -> None:
        refused(lambda: Ledger(path), "writ")
        refused(lambda: Ledger(folder / "new.sqlite"), "unable to open", "can be written")

    if os.geteuid() == 0:
        with mounted("mount", "--bind", str(folder), str(folder), at=folder):
            subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
            check()
    else:
        path.chmod(0o400)
        folder.chmod(0o500)
        check()
        folder.chmod(0o700)
        path.chmod(0o600)
    whole(path, run, 9)


# Other processes ----------------------------------------------------------------------------------------------------


def test_a_ledger_that_another_process_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = filled(path)
    ledger = Ledger(path)
    monkeypatch.setattr(sqlite_file, "PATIENCE_SECONDS", 0.2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    refused(lambda: ledger.reserve(run, 0, three), "locked", "another process holds it")
    refused(lambda: ledger.open_run(PLAN, guarantee(), "patients"), "locked")
    refused(lambda: Ledger(path), "locked")
    other.execute("ROLLBACK")
    other.close()
    assert ledger.reserve(run, 0, three)[0].position == 9
    ledger.close()
    whole(path, run, 12)


def test_a_writer_waits_for_its_turn(path: Path) -> None:
    run, _ = filled(path)
    ledger = Ledger(path)
    program = (
        "import sqlite3, sys, time\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "time.sleep(0.3)\n"
        "c.execute('COMMIT')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert ledger.reserve(run, 0, three)[0].position == 9
    ledger.close()


# Clocks -------------------------------------------------------------------------------------------------------------


class Clock(datetime):
    """A clock that is off."""

    error = timedelta(0)
    fixed: datetime | None = None

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return (cls.fixed or datetime.now(tz)) + cls.error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "error", timedelta(0))
    monkeypatch.setattr(Clock, "fixed", datetime(2030, 1, 1, 12, tzinfo=UTC))
    monkeypatch.setattr(chain, "datetime", Clock)
    return Clock


def test_a_clock_that_goes_back_is_refused(path: Path, clock: type[Clock]) -> None:
    run, count = filled(path)
    ledger = Ledger(path)
    clock.error = -chain.CLOCK_TOLERANCE - timedelta(microseconds=1)
    for charge in (
        lambda: ledger.reserve(run, 0, three),
        lambda: ledger.open_run(PLAN, guarantee(), "patients"),
        lambda: ledger.start_attempt(run, PLAN),
    ):
        refused(charge, "the clock says 2030-01-01 11:54:59 UTC", "set the clock right", "nothing was charged")
    assert ledger.verify().entries == count
    clock.error = timedelta(0)
    assert ledger.reserve(run, 0, three)[0].position == 9
    ledger.close()
    whole(path, run, 12)


def test_hosts_that_share_a_ledger_may_differ_by_the_tolerance(path: Path, clock: type[Clock]) -> None:
    run, _ = filled(path)
    ledger = Ledger(path)
    clock.error = -chain.CLOCK_TOLERANCE
    ledger.reserve(run, 0, three)
    clock.error = timedelta(days=300)
    ledger.reserve(run, 0, three)
    ledger.close()
    whole(path, run, 15)


def test_time_may_stand_still(path: Path, clock: type[Clock]) -> None:
    run, count = filled(path)
    assert len({at for (at,) in sql(path, "SELECT at FROM discreet_entries")}) == 1
    whole(path, run, 9)
    assert count == 9


# Callers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [BudgetExhausted("no"), RuntimeError("a bug"), KeyboardInterrupt()])
def test_an_admission_that_fails_writes_nothing(path: Path, failure: BaseException) -> None:
    run, count = filled(path)
    ledger = Ledger(path)

    def fail(_position: int) -> list[Event]:
        raise failure

    with pytest.raises(type(failure)):
        ledger.reserve(run, 0, fail)
    assert ledger.verify().entries == count
    assert ledger.reserve(run, 0, three)[0].position == 9  # and the lock is free again
    ledger.close()


def test_what_cannot_be_charged_is_refused(path: Path) -> None:
    run, count = filled(path)
    ledger = Ledger(path)
    refused(lambda: ledger.reserve(run, 0, lambda _position: []), "granted no step")
    refused(lambda: ledger.reserve("nobody", 0, three), "knows no run")
    refused(lambda: ledger.start_attempt("nobody", PLAN), "knows no run")
    assert ledger.verify().entries == count
    ledger.close()


def test_a_charge_is_on_the_disk_when_reserve_returns(path: Path) -> None:
    run, _ = filled(path)
    ledger = Ledger(path)
    ledger.reserve(run, 0, lambda _position: [STEP])
    assert sql(path, "SELECT sum(steps) FROM discreet_entries") == [(10,)]
    with ledger._store.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA: FULL and more
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    ledger.close()
