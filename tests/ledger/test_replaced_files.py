"""A ledger whose file is removed or replaced while it is open: SQLite would charge on to a file without a name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ledgers import PLAN, guarantee, refused, three

from discreet.core.errors import LedgerError
from discreet.ledger import Budget, Ledger

GONE = "ledger.sqlite was removed or replaced while it was open"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def rename(path: Path) -> None:
    path.rename(path.with_name("away"))


def rename_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


def file_for_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.touch()


def put_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def put_a_copy_without_logs(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    remove(path)
    path.with_name("copy").rename(path)


WAYS = [remove, rename, rename_its_folder, file_for_its_folder, put_a_copy, put_a_copy_without_logs]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nothing_more_is_charged_to_it(tmp_path: Path, way: Callable[[Path], None]) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "ledger.sqlite"
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    attempt = ledger.start_attempt(run, PLAN)
    (receipt, *_) = ledger.reserve(run, attempt, three)
    way(path)
    there, asked = path.exists(), list[int]()

    def next_events(charged: int) -> list[object]:
        asked.append(charged)
        return []

    for use in (
        lambda: ledger.reserve(run, attempt, next_events),  # type: ignore[arg-type]
        lambda: ledger.commit(receipt),
        lambda: ledger.open_run(PLAN, guarantee()),
        lambda: ledger.charged_steps(run),
        lambda: ledger.verify(),
    ):
        refused(use, GONE, "restore the newest file", "start again")
    assert asked == []
    ledger.close()
    assert path.exists() == there  # no new one was made


def test_a_copy_under_its_name_grants_its_budget_once(path: Path) -> None:
    """And the first process leaves the log of the second alone when it ends."""
    first = Ledger(path)
    first.set_budget("patients", Budget(2.0, 1e-4))
    put_a_copy_without_logs(path)
    second = Ledger(path)
    second.open_run(PLAN, guarantee(0.7), "patients")
    refused(lambda: first.open_run(PLAN, guarantee(0.7), "patients"), GONE)
    second.open_run(PLAN, guarantee(0.7), "patients")
    log = path.with_name(f"{path.name}-wal").stat()
    first.close()
    assert os.path.samestat(path.with_name(f"{path.name}-wal").stat(), log)
    second.close()
    third = Ledger(path)
    assert third.budget("patients")[1].runs == 2
    third.close()


def test_it_goes_on_when_it_is_back(path: Path) -> None:
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    attempt = ledger.start_attempt(run, PLAN)
    rename(path)
    refused(lambda: ledger.reserve(run, attempt, three), GONE)
    path.with_name("away").rename(path)
    assert [one.position for one in ledger.reserve(run, attempt, three)] == [0, 1, 2]
    ledger.close()


def test_one_that_goes_while_its_turn_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path)
    run = ledger.open_run(PLAN, guarantee())
    attempt = ledger.start_attempt(run, PLAN)
    real = ledger._store._engine.begin

    def begin() -> object:
        put_a_copy(path)
        return real()

    monkeypatch.setattr(ledger._store._engine, "begin", begin)
    refused(lambda: ledger.reserve(run, attempt, three), GONE)
    monkeypatch.undo()
    ledger.close()


def test_a_link_to_it_that_leads_elsewhere_now(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    ledger = Ledger(link)
    run = ledger.open_run(PLAN, guarantee())
    Ledger(tmp_path / "other.sqlite").close()
    link.unlink()
    link.symlink_to(tmp_path / "other.sqlite")
    refused(lambda: ledger.start_attempt(run, PLAN), "link.sqlite was removed or replaced")
    link.unlink()
    link.symlink_to(path)
    assert ledger.start_attempt(run, PLAN) == 0
    ledger.close()


def test_where_sqlite_makes_it_in_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused_too(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused_too)
    ledger = Ledger(path)
    ledger.open_run(PLAN, guarantee())
    put_a_copy(path)
    with pytest.raises(LedgerError, match=GONE):
        ledger.open_run(PLAN, guarantee())
    ledger.close()
