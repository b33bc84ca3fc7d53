"""Totals in the ledger: who starts from the last one finds what one finds who adds up from the beginning."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from ledgers import PLAN, guarantee, sql

from discreet.accounting.adaptive.filters import Filter, GaussianFilter, ZcdpFilter
from discreet.core.errors import BudgetExhausted, LedgerError
from discreet.core.events import Gaussian, Poisson
from discreet.ledger import Budget, Ledger, NextEvents, totals
from discreet.ledger.chain import Entry
from discreet.ledger.entries_table import LATER_INDEXES

BUDGETS: dict[str, Filter] = {
    "basic": Budget(40.0, 1e-3),
    "zcdp": ZcdpFilter(3.0, 1e-5),
    "gdp": GaussianFilter(9.0, 1e-5),
}


NUMBERS = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses of fresh ledgers."""
    if request.param == "postgresql":
        found: Callable[[], str] = request.getfixturevalue("postgres")
        return found
    return lambda: str(tmp_path / f"{next(NUMBERS)}.sqlite")


def stated(ledger: Ledger) -> list[Entry]:
    return [entry for entry in ledger.walk() if entry.kind == "total"]


def step(noise: float) -> NextEvents:
    return lambda _: [Gaussian(noise)]


def busy(ledger: Ledger, runs: int, blocks: int) -> None:
    """Charge so many runs on `patients`, each with so many reservations of different noise."""
    for number in range(runs):
        run = ledger.open_run(PLAN, guarantee(0.1 + 0.01 * number, 1e-6), "patients")
        attempt = ledger.start_attempt(run, PLAN)
        for block in range(blocks):
            ledger.reserve(run, attempt, step(20.0 + block))


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_new_process_starts_from_the_last_total(
    new: Callable[[], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, budget = new(), BUDGETS[kind]
    ledger = Ledger(where)
    ledger.set_budget("patients", budget)
    ledger.set_budget("staff", budget)
    busy(ledger, 70, 3)
    found = stated(ledger)
    assert len(found) == (1 if kind == "basic" else 4)
    assert {entry.dataset for entry in found} == {"patients"}
    known = ledger.budget("patients")
    read: list[int] = []
    real = totals.check_seal
    monkeypatch.setattr(totals, "check_seal", lambda entry: (read.append(entry.number), real(entry)))
    fresh = Ledger(where)
    assert fresh.budget("patients") == known
    assert read
    assert min(read) == found[-1].number
    assert len(read) <= totals.EVERY + 3
    monkeypatch.setattr(totals, "_last", lambda *given: totals.replace(totals._NOTHING, amounts=zeros(given[2])))
    beginning = Ledger(where)
    assert beginning.budget("patients") == known
    assert known[1].runs == 70
    for one in (ledger, fresh, beginning):
        one.verify()
        one.close()


def zeros(budgets: list[Filter]) -> dict[Filter, tuple[float, ...]]:
    return {budget: (0.0,) * len(budget.limits) for budget in budgets}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(every=st.integers(1, 5), few=st.sampled_from([0, 3, 5000]), order=st.lists(st.integers(0, 3), max_size=25))
def test_how_often_totals_are_written_changes_no_decision(
    tmp_path: Path, every: int, few: int, order: list[int]
) -> None:
    """Two processes on three data sets, one of them with a filter over steps: the same answers as without totals."""
    answers = []
    for often, how_many in ((10**9, 5000), (every, few)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(totals, "EVERY", often)
            patch.setattr("discreet.ledger.store._FEW", how_many)
            answers.append(list(answered(tmp_path, order)))
    assert answers[0] == answers[1]


def answered(folder: Path, order: list[int]) -> Iterator[object]:
    where = folder / f"{next(NUMBERS)}.sqlite"
    books = [Ledger(where), Ledger(where)]
    for dataset, budget in (("a", ZcdpFilter(0.02, 1e-5)), ("b", Budget(2.5, 1e-3))):
        books[0].set_budget(dataset, budget)
    runs = [(name, books[0].open_run(PLAN, guarantee(0.5), name)) for name in ("a", "a", "b", "")]
    for turn, which in enumerate(order):
        name, run = runs[which]
        ledger = books[turn % 2]
        try:
            if turn % 3 == 0:
                ledger.open_run(PLAN, guarantee(0.5), name)
            ledger.reserve(run, 0, lambda _: [Gaussian(30.0)])
            yield ledger.charged_steps(run)
        except BudgetExhausted as error:
            yield str(error)
        yield ledger.budget("a")
        yield ledger.budget("b")
    yield Ledger(where).budget("a")
    books[1].verify()
    for ledger in books:
        ledger.close()


@pytest.mark.parametrize("field", ["runs", "epsilon", "delta", "kinds", "filters"])
def test_a_total_that_is_not_the_sum_is_found(tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed as it should be: only adding up finds it."""
    monkeypatch.setattr(totals, "EVERY", 3)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", BUDGETS["zcdp"])
    real = totals.Total.content
    other = {"runs": 7, "epsilon": "1/3", "delta": None, "kinds": [["replace_one", "user"]], "filters": None}

    def forged(self: totals.Total) -> object:
        content = real.__get__(self)
        (name, spent), *_ = content["filters"]
        return content | {field: [[name, [spent[0] / 2]]] if field == "filters" else other[field]}

    monkeypatch.setattr(totals.Total, "content", property(forged))
    busy(ledger, 2, 4)
    number = stated(ledger)[0].number
    with pytest.raises(LedgerError, match=rf"entry {number} of the ledger states another total"):
        ledger.verify()
    ledger.close()


@pytest.mark.parametrize(
    "wrong", [{}, {"epsilon": "1e999999999"}, {"delta": "1/0"}, {"kinds": 3}, {"filters": [[{}, []]]}]
)
def test_a_total_that_states_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    """Sealed as it should be, and no number is written out that has no end."""
    monkeypatch.setattr(totals, "EVERY", 3)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", BUDGETS["zcdp"])
    real = totals.Total.content
    monkeypatch.setattr(totals.Total, "content", property(lambda self: real.__get__(self) | wrong if wrong else {}))
    busy(ledger, 1, 4)
    fresh = Ledger(tmp_path / "ledger.sqlite")
    for read in (ledger.verify, lambda: fresh.budget("patients")):
        with pytest.raises(LedgerError, match="states no total"):
            read()
    fresh.close()
    ledger.close()


def test_an_edited_total_is_no_start(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("patients", BUDGETS["zcdp"])
    busy(ledger, 1, 70)
    (total,) = stated(ledger)
    content = json.loads(total.body)
    content["filters"][0][1][0] = 0.0
    sql(path, "UPDATE discreet_entries SET body = ? WHERE number = ?", json.dumps(content), total.number)
    with pytest.raises(LedgerError, match=f"entry {total.number} of the ledger was edited"):
        Ledger(path).budget("patients")
    ledger.close()


def test_a_ledger_of_an_early_version_gets_its_indexes_and_totals(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with pytest.MonkeyPatch.context() as early:
        early.setattr(totals, "EVERY", 10**9)
        ledger = Ledger(path)
        ledger.set_budget("patients", BUDGETS["zcdp"])
        busy(ledger, 2, 40)
        ledger.close()
    later = [index.name for index in LATER_INDEXES]
    for name in later:
        sql(path, f"DROP INDEX {name}")
    ledger = Ledger(path)
    busy(ledger, 1, 1)
    assert len(stated(ledger)) == 1
    there = {name for (name,) in sql(path, "SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert there >= set(later)
    ledger.verify()
    ledger.close()


def test_all_rows_are_counted_by_the_smallest_index(tmp_path: Path) -> None:
    """With another one, opening a ledger of a million entries takes three times as long."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    (plan,) = sql(path, "EXPLAIN QUERY PLAN SELECT count(*) FROM discreet_entries")
    assert plan[-1].endswith("USING COVERING INDEX discreet_entries_counted")


def test_a_filter_that_another_replaced_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first run a budget may be replaced by one of another kind, which the first could not even price."""
    monkeypatch.setattr(totals, "EVERY", 3)
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("patients", ZcdpFilter(0.02, 1e-5))
    ledger.set_budget("patients", Budget(40.0, 1e-3))
    busy(ledger, 2, 4)
    run = ledger.open_run(PLAN, guarantee(), "patients")
    attempt = ledger.start_attempt(run, PLAN)
    for _ in range(4):
        ledger.reserve(run, attempt, lambda _: [Poisson(0.1, Gaussian(0.5))])
    busy(ledger, 3, 1)
    assert all(json.loads(entry.body)["filters"] == [] for entry in stated(ledger))
    assert stated(ledger)
    for one in (ledger, Ledger(path)):
        assert one.budget("patients")[1].runs == 6
        one.verify()
        one.close()


def _copy(path: Path, other: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(other)) as target:
        source.backup(target)


def test_a_copy_in_the_place_of_the_ledger_is_read_from_its_beginning(tmp_path: Path) -> None:
    """What was read of the ledger that was there before counts no more: neither sums nor positions."""
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("patients", Budget(10.0, 1e-3))
    ledger.open_run(PLAN, guarantee(0.4, 1e-9), "patients")
    copied = tmp_path / "copy.sqlite"
    _copy(path, copied)
    for _ in range(9):
        ledger.open_run(PLAN, guarantee(0.01, 1e-9), "patients")
    _copy(copied, path)
    other = Ledger(path)
    for _ in range(8):
        other.open_run(PLAN, guarantee(1.05, 1e-9), "patients")
    with pytest.raises(BudgetExhausted, match=r"has spent 8\.8"):
        ledger.open_run(PLAN, guarantee(8.0, 1e-9), "patients")
    ledger.verify()
    ledger.close()
    other.close()


def test_a_row_that_vanished_is_found_whatever_was_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A total, or a look at another data set, does not stand for rows that were deleted since."""
    monkeypatch.setattr(totals, "EVERY", 2)
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for dataset in ("patients", "staff"):
        ledger.set_budget(dataset, ZcdpFilter(0.05, 1e-5))
    run = ledger.open_run(PLAN, guarantee(), "staff")
    own = ledger.open_run(PLAN, guarantee(), "", ZcdpFilter(0.05, 1e-5))
    for one in (run, own):
        for _ in range(2):
            ledger.reserve(one, ledger.start_attempt(one, PLAN), lambda _: [Gaussian(5.0)])
    busy(ledger, 4, 1)
    ledger.close()
    for one in (run, own):
        where = "run = ? AND kind = 'reservation' AND position = 1"
        sql(path, f"DELETE FROM discreet_entries WHERE {where}", one)
    fresh = Ledger(path)
    with pytest.raises(LedgerError, match="cut"):
        fresh.open_run(PLAN, guarantee(), "patients")
    for one in (run, own):
        with pytest.raises(LedgerError, match="cut"):
            fresh.reserve(one, 1, lambda _: [Gaussian(5.0)])
    fresh.close()
