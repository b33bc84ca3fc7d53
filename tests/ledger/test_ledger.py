"""Reservations: charged first, once, as a prefix of the plan, and visible to everyone who looks."""

import multiprocessing
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_workers import reserve_and_die
from ledgers import guarantee, sql

from discreet.core.errors import BudgetExhausted, InputError, LedgerError
from discreet.core.events import Compose, Event, Gaussian, Poisson, tally
from discreet.core.events.event_json import from_json
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
    return ledger.open_run(PLAN.fingerprint(), guarantee())


def rows(path: Path) -> list[tuple[int, int, int]]:
    """(attempt, position, steps) as another program reads them."""
    return sql(path, "SELECT attempt, position, steps FROM discreet_entries WHERE kind = 'reservation' ORDER BY number")


def test_a_charge_is_visible_to_others_when_reserve_returns(ledger: Ledger, path: Path, run: str) -> None:
    receipts = ledger.reserve(run, 0, PLAN.next_block)
    assert [receipt.position for receipt in receipts] == [0, 1, 2, 3]
    assert rows(path) == [(0, 0, 4)]
    other = Ledger(path)
    assert other.charged_steps(run) == 4
    other.close()


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
    other = ledger.open_run(PLAN.fingerprint(), guarantee())
    assert other != run
    ledger.reserve(run, 0, PLAN.next_block)
    assert ledger.charged_steps(other) == 0
    assert ledger.reserve(other, 0, PLAN.next_block)[0].position == 0


def test_commit_notes_what_was_released_and_charges_nothing(ledger: Ledger, path: Path, run: str) -> None:
    receipts = ledger.reserve(run, 0, PLAN.next_block)
    ledger.reserve(run, 0, PLAN.next_block)
    ledger.commit(receipts[2])
    assert ledger.charged_steps(run) == 8
    assert [(entry.position, entry.steps) for entry in ledger.entries(run) if entry.kind == "release"] == [(3, 0)]


def test_attempts_are_counted_from_zero_across_ledger_objects(ledger: Ledger, path: Path, run: str) -> None:
    fingerprint = PLAN.fingerprint()
    assert [ledger.start_attempt(run, fingerprint) for _ in range(3)] == [0, 1, 2]
    other = Ledger(path)
    assert other.start_attempt(run, fingerprint) == 3
    assert other.start_attempt(other.open_run("another", guarantee()), "another") == 0
    other.close()


def test_an_attempt_with_another_plan_or_mechanism_is_refused(ledger: Ledger, run: str) -> None:
    ledger.start_attempt(run, PLAN.fingerprint(), {"noise": "fast"})
    with pytest.raises(InputError, match="plan or the initial model"):
        ledger.start_attempt(run, "sha256:another", {"noise": "fast"})
    with pytest.raises(InputError, match="started with noise 'fast'"):
        ledger.start_attempt(run, PLAN.fingerprint(), {"noise": "exact"})
    assert ledger.start_attempt(run, PLAN.fingerprint(), {"noise": "fast"}) == 1


def test_the_entries_of_a_run_are_its_own_in_order(ledger: Ledger, run: str) -> None:
    other = ledger.open_run(PLAN.fingerprint(), guarantee())
    ledger.start_attempt(run, PLAN.fingerprint())
    ledger.start_attempt(other, PLAN.fingerprint())
    ledger.reserve(run, 0, PLAN.next_block)
    assert [entry.kind for entry in ledger.entries(run)] == ["run", "attempt", "reservation"]
    assert [entry.kind for entry in ledger.entries(other)] == ["run", "attempt"]
    assert [entry.number for entry in ledger.entries()] == [0, 1, 2, 3, 4]
    assert from_json(ledger.entries(run)[-1].content) == PLAN.first_steps(4)


def test_an_unknown_run_is_refused(ledger: Ledger, path: Path) -> None:
    with pytest.raises(LedgerError, match="knows no run"):
        ledger.start_attempt("nobody", PLAN.fingerprint())
    with pytest.raises(LedgerError):
        ledger.reserve("nobody", 0, PLAN.next_block)
    assert rows(path) == []


def test_a_position_cannot_be_charged_twice(ledger: Ledger, path: Path, run: str) -> None:
    """Not through the ledger, which counts on; and behind its back an entry has no second successor."""
    first = ledger.reserve(run, 0, PLAN.next_block)
    other = Ledger(path)
    second = other.reserve(run, 0, PLAN.next_block)
    other.close()
    assert not {receipt.position for receipt in first} & {receipt.position for receipt in second}
    columns = "kind, dataset, run, attempt, position, steps, body, at, previous, hash"
    with pytest.raises(sqlite3.IntegrityError):
        sql(
            path,
            f"INSERT INTO discreet_entries (number, {columns}) SELECT 99, {columns} FROM discreet_entries "
            "WHERE kind = 'reservation' AND position = 0",
        )


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
    receipts = ledger.reserve(run, ledger.start_attempt(run, PLAN.fingerprint()), PLAN.next_block)
    assert [(receipt.attempt, receipt.position) for receipt in receipts] == [(1, 4), (1, 5), (1, 6), (1, 7)]


def test_a_later_start_of_a_run_ends_the_one_before(ledger: Ledger, path: Path, run: str) -> None:
    """Each would count and read only what it charged itself; its odometer, for one, would say too little."""
    first = ledger.start_attempt(run, PLAN.fingerprint())
    ledger.reserve(run, first, PLAN.next_block)
    other = Ledger(path)
    second = other.start_attempt(run, PLAN.fingerprint())
    before = rows(path)
    with pytest.raises(LedgerError, match=rf"^run {run[:8]} was started again, and goes on there; this start"):
        ledger.reserve(run, first, PLAN.next_block)
    assert rows(path) == before
    assert [receipt.position for receipt in other.reserve(run, second, PLAN.next_block)] == [4, 5, 6, 7]
    other.close()
