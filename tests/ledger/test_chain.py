"""Whoever edits, cuts or reorders the ledger is found: by `verify`, and at the end of the chain by the next charge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from ledgers import PLAN, STEP, filled, guarantee, sql, three

from discreet.core.errors import LedgerError
from discreet.core.events import Compose, Repeat
from discreet.ledger import Entry, Ledger
from discreet.ledger.chain import check_chain, check_seal

COLUMNS: dict[str, list[Any]] = {
    "kind": ["note", "", b"run"],
    "dataset": ["others", b"patients"],
    "run": ["0" * 32, ""],
    "attempt": [1, -1, "one", 0.5],
    "position": [1, 10**6, "x"],
    "steps": [-3, 2, 10**6, 2.5, b"3"],
    "body": ['{"x":1}', "", "not JSON", b"\xff\xfe"],
    "at": ["2001-01-01T00:00:00+00:00", "never", "", b"now"],
    "previous": ["f" * 64, ""],
    "hash": ["f" * 64, "", "0" * 64],
}
EDITS = [(column, value) for column, values in COLUMNS.items() for value in values]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def verified(path: Path) -> int:
    ledger = Ledger(path)
    try:
        return ledger.verify().entries
    finally:
        ledger.close()


def charges(path: Path, run: str) -> list[Callable[[Ledger], object]]:
    """Everything that appends."""
    return [
        lambda ledger: ledger.reserve(run, 0, three),
        lambda ledger: ledger.start_attempt(run, PLAN),
        lambda ledger: ledger.open_run(PLAN, guarantee(), "patients"),
        lambda ledger: ledger.open_run(PLAN, guarantee()),
    ]


@pytest.mark.parametrize(("column", "value"), EDITS)
def test_an_edit_of_the_last_entry_is_found_by_verify_and_by_the_next_charge(
    path: Path, column: str, value: object
) -> None:
    run, count = filled(path)
    last = count - 1
    for number in (last, 2):
        before = sql(path, f"SELECT {column} FROM discreet_entries WHERE number = ?", number)[0][0]
        sql(path, f"UPDATE discreet_entries SET {column} = ? WHERE number = ?", value, number)
        with pytest.raises(LedgerError, match=f"entry {number} .*edited|entry {number} is missing"):
            verified(path)
        if number == last:
            for charge in charges(path, run):
                ledger = Ledger(path)
                with pytest.raises(LedgerError):
                    charge(ledger)
                ledger.close()
            assert sql(path, "SELECT count(*) FROM discreet_entries") == [(count,)]
        sql(path, f"UPDATE discreet_entries SET {column} = ? WHERE number = ?", before, number)
        assert verified(path) == count


@pytest.mark.parametrize("number", [100, -1])
def test_an_edited_number_is_found(path: Path, number: int) -> None:
    run, count = filled(path)
    sql(path, "UPDATE discreet_entries SET number = ? WHERE number = ?", number, count - 1)
    with pytest.raises(LedgerError):
        verified(path)
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match=r"edited|cut"):
        ledger.reserve(run, 0, three)
    ledger.close()


@pytest.mark.parametrize("missing", range(8))
def test_a_row_that_was_cut_is_named(path: Path, missing: int) -> None:
    """From the front or the middle."""
    run, count = filled(path)
    assert count == 9
    sql(path, "DELETE FROM discreet_entries WHERE number = ?", missing)
    with pytest.raises(LedgerError, match=f"entry {missing} is missing"):
        verified(path)
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match=r"cut|knows no run"):
        ledger.start_attempt(run, PLAN)
    if missing:  # without its first entry the data set has no budget
        with pytest.raises(LedgerError, match="cut"):
            ledger.open_run(PLAN, guarantee(), "patients")
    ledger.close()


def test_the_whole_front_can_be_cut_off_only_visibly(path: Path) -> None:
    filled(path)
    sql(path, "DELETE FROM discreet_entries WHERE number < 4")
    with pytest.raises(LedgerError, match="entry 0 is missing"):
        verified(path)


def test_a_cut_and_renumbered_chain_is_found(path: Path) -> None:
    filled(path)
    sql(path, "DELETE FROM discreet_entries WHERE number = 3")
    sql(path, "UPDATE discreet_entries SET number = -number WHERE number > 3")
    sql(path, "UPDATE discreet_entries SET number = -number - 1 WHERE number < 0")
    with pytest.raises(LedgerError, match="entry 3"):
        verified(path)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (3, 5), (7, 8)])
def test_rows_that_were_swapped_are_found(path: Path, one: int, other: int) -> None:
    filled(path)
    for before, after in ((one, -1), (other, one), (-1, other)):
        sql(path, "UPDATE discreet_entries SET number = ? WHERE number = ?", after, before)
    with pytest.raises(LedgerError, match=f"entry {one}"):
        verified(path)


def test_a_reservation_that_was_cut_does_not_free_its_steps(path: Path) -> None:
    """Seen already by the next reservation, which nothing else would make walk the chain."""
    run, _ = filled(path)
    sql(path, "DELETE FROM discreet_entries WHERE number = 3")  # the first of three blocks
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match="cut"):
        ledger.reserve(run, 0, three)
    with pytest.raises(LedgerError, match="cut"):
        ledger.charged_steps(run)
    ledger.close()


def test_what_the_chain_alone_cannot_see(path: Path) -> None:
    """Its own end: cut there, it is a shorter chain. A checkpoint or a certificate tells (tests/crash, tests/cli)."""
    run, count = filled(path)
    sql(path, "DELETE FROM discreet_entries WHERE number > 4")
    assert verified(path) == 5 < count
    ledger = Ledger(path)
    assert ledger.charged_steps(run) == 3
    ledger.close()


def test_the_head_changes_with_every_entry(path: Path) -> None:
    ledger = Ledger(path)
    assert (ledger.verify().entries, ledger.verify().hash) == (0, "0" * 64)
    run = ledger.open_run(PLAN, guarantee())
    seen = {ledger.verify().hash}
    for _ in range(3):
        ledger.reserve(run, ledger.start_attempt(run, PLAN), three)
        seen.add(ledger.verify().hash)
    assert len(seen) == 4
    ledger.close()


TEXT = st.text(max_size=5)
NUMBER = st.integers(-3, 3)
ENTRIES = st.builds(Entry, NUMBER, TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, TEXT, TEXT, TEXT, st.just(""))


@given(ENTRIES, ENTRIES)
def test_different_entries_have_different_seals(one: Entry, other: Entry) -> None:
    assert (one.seal() == other.seal()) == (one == other)


@given(
    ENTRIES, st.sampled_from([field.name for field in dataclasses.fields(Entry)]), st.one_of(TEXT, NUMBER, st.binary())
)
def test_any_other_value_of_any_field_breaks_the_seal(entry: Entry, name: str, value: object) -> None:
    sealed = dataclasses.replace(entry, hash=entry.seal())
    check_seal(sealed)
    if value == getattr(sealed, name):
        return
    with pytest.raises(LedgerError):
        check_seal(dataclasses.replace(sealed, **{name: value}))


def test_an_empty_chain_is_whole() -> None:
    assert check_chain([]) == (0, "0" * 64)


def test_what_is_spent_is_what_was_reserved(path: Path) -> None:
    run, _ = filled(path)
    ledger = Ledger(path)
    assert ledger.spent(run) == Compose((Compose((Repeat(STEP, 3),)),) * 3)
    ledger.close()
