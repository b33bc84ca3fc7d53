"""The ledger: charged first, durably, once, and never taken back."""

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_workers import reserve_and_die, spend_all

from discreet.core.errors import BudgetExhausted, LedgerError
from discreet.core.events import Compose, Event, Gaussian, Poisson, from_json, tally
from discreet.ledger import Ledger
from discreet.plan import Plan

PLAN = Plan.poisson(
    population=100,
    batch=10,
    steps=11,
    clip_norm=1.0,
    delta=1e-5,
    noise_multiplier=[(2.0, 5), (1.0, 6)],
).model_copy(update={"block": 4})
EVENTS: list[Event] = [Poisson(0.1, Gaussian(2.0))] * 5 + [Poisson(0.1, Gaussian(1.0))] * 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger(path)
    yield opened
    opened.close()


@pytest.fixture
def run(ledger: Ledger) -> str:
    return ledger.open_run(PLAN.fingerprint())


def rows(path: Path) -> list[tuple[int, int, int]]:
    """(attempt, position, steps) as another program reads them."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT attempt, position, steps FROM reservations ORDER BY id").fetchall()
    finally:
        connection.close()


def test_a_charge_is_visible_to_others_when_reserve_returns(ledger: Ledger, path: Path, run: str) -> None:
    receipts = ledger.reserve(run, 0, PLAN.next_block)
    assert [receipt.position for receipt in receipts] == [0, 1, 2, 3]
    assert rows(path) == [(0, 0, 4)]
    other = Ledger(path)
    assert other.charged_steps(run) == 4
    other.close()


def test_the_database_is_written_through_to_the_disk(ledger: Ledger) -> None:
    with ledger._transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_refusal_writes_nothing(ledger: Ledger, path: Path, run: str) -> None:
    def refuse(_position: int) -> list[Event]:
        raise BudgetExhausted("no")

    with pytest.raises(BudgetExhausted, match="no"):
        ledger.reserve(run, 0, refuse)
    assert rows(path) == []
    assert len(ledger.reserve(run, 0, PLAN.next_block)) == 4  # and the lock is free again


def test_an_admission_that_grants_nothing_is_refused(ledger: Ledger, path: Path, run: str) -> None:
    with pytest.raises(LedgerError):
        ledger.reserve(run, 0, lambda _position: ())
    assert rows(path) == []


def test_the_kth_charged_step_has_the_kth_event_across_attempts(ledger: Ledger, run: str) -> None:
    seen: list[tuple[int, int, Event]] = []
    for attempt in (0, 0, 1):
        seen += [(r.attempt, r.position, r.event) for r in ledger.reserve(run, attempt, PLAN.next_block)]
    assert [position for _, position, _ in seen] == list(range(11))
    assert [attempt for attempt, _, _ in seen] == [0] * 8 + [1] * 3
    assert [event for _, _, event in seen] == EVENTS
    with pytest.raises(BudgetExhausted):
        ledger.reserve(run, 2, PLAN.next_block)


def test_the_last_partial_block_is_charged(ledger: Ledger, path: Path, run: str) -> None:
    for _ in range(3):
        ledger.reserve(run, 0, PLAN.next_block)
    assert rows(path) == [(0, 0, 4), (0, 4, 4), (0, 8, 3)]
    assert tally(ledger.spent(run)) == tally(PLAN.event())


def test_spent_is_a_prefix_of_the_plan(ledger: Ledger, run: str) -> None:
    assert ledger.spent(run) == Compose(())
    ledger.reserve(run, 0, PLAN.next_block)
    ledger.reserve(run, 0, PLAN.next_block)
    assert tally(ledger.spent(run)) == tally(PLAN.first_steps(8))


def test_runs_do_not_share_a_budget(ledger: Ledger, run: str) -> None:
    other = ledger.open_run(PLAN.fingerprint())
    assert other != run
    ledger.reserve(run, 0, PLAN.next_block)
    assert ledger.charged_steps(other) == 0
    assert ledger.reserve(other, 0, PLAN.next_block)[0].position == 0


def test_commit_notes_what_was_released_and_charges_nothing(ledger: Ledger, path: Path, run: str) -> None:
    receipts = ledger.reserve(run, 0, PLAN.next_block)
    ledger.reserve(run, 0, PLAN.next_block)
    ledger.commit(receipts[2])
    assert ledger.charged_steps(run) == 8
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT released FROM reservations ORDER BY id").fetchall() == [(3,), (0,)]
    connection.close()


def test_attempts_are_counted_from_zero_across_ledger_objects(ledger: Ledger, path: Path, run: str) -> None:
    assert [ledger.start_attempt(run) for _ in range(3)] == [0, 1, 2]
    other = Ledger(path)
    assert other.start_attempt(run) == 3
    assert other.start_attempt(other.open_run("another")) == 0
    other.close()


def test_an_unknown_run_is_refused(ledger: Ledger, path: Path) -> None:
    with pytest.raises(LedgerError, match="knows no run"):
        ledger.start_attempt("nobody")
    with pytest.raises(LedgerError):
        ledger.reserve("nobody", 0, PLAN.next_block)
    assert rows(path) == []


def test_a_position_cannot_be_charged_twice(ledger: Ledger, path: Path, run: str) -> None:
    ledger.reserve(run, 0, PLAN.next_block)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO reservations (run, attempt, position, steps, event) VALUES (?,0,0,1,'')", (run,)
        )
    connection.close()


def test_a_missing_folder_is_a_ledger_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nowhere"):
        Ledger(tmp_path / "nowhere" / "ledger.sqlite")


def test_a_folder_in_place_of_the_file_is_a_ledger_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        Ledger(tmp_path)


def test_a_file_that_is_no_database_is_a_ledger_error(path: Path) -> None:
    path.write_bytes(b"this is not a database, but it is long enough to be looked at" * 20)
    with pytest.raises(LedgerError):
        Ledger(path)


@pytest.mark.parametrize("name", ["what?mode=memory", "50%20percent", "a b#c", "semi;colon", ":memory:"])
def test_the_ledger_is_where_its_path_says(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.open_run("plan")
    ledger.close()
    assert (folder / "ledger.sqlite").stat().st_size > 0
    assert rows(folder / "ledger.sqlite") == []


def test_four_processes_never_share_a_step(ledger: Ledger, path: Path) -> None:
    plan = Plan.poisson(
        population=100, batch=10, steps=101, clip_norm=1.0, delta=1e-5, noise_multiplier=[(2.0, 50), (1.0, 51)]
    ).model_copy(update={"block": 3})
    run = ledger.open_run(plan.fingerprint())
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        shares = pool.starmap(spend_all, [(path, run, plan.model_dump_json())] * 4, chunksize=1)
    taken = sorted((position, from_json(event)) for share in shares for position, event in share)
    assert [position for position, _ in taken] == list(range(101))
    assert [event for _, event in taken] == [e for position in range(0, 101, 3) for e in plan.next_block(position)]
    assert ledger.charged_steps(run) == 101
    assert tally(ledger.spent(run)) == tally(plan.event())
    assert ledger.start_attempt(run) == 4


def test_a_killed_process_leaves_its_charge(ledger: Ledger, path: Path, run: str) -> None:
    child = multiprocessing.get_context("spawn").Process(
        target=reserve_and_die, args=(path, run, PLAN.model_dump_json())
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    child.close()
    assert ledger.charged_steps(run) == 4
    assert rows(path) == [(0, 0, 4)]
    receipts = ledger.reserve(run, ledger.start_attempt(run), PLAN.next_block)
    assert [(receipt.attempt, receipt.position) for receipt in receipts] == [(1, 4), (1, 5), (1, 6), (1, 7)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_a_ledger_error(ledger: Ledger, path: Path) -> None:
    ledger.close()
    path.chmod(0o400)
    with pytest.raises(LedgerError):
        Ledger(path).open_run("plan")
