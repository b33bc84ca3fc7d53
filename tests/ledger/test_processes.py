"""Sixteen processes on one ledger: nothing is granted twice, and everybody gets an answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_crowd import BLOCK, DATASET, RHO, RUN, crowd, plan_of
from ledgers import PLAN, guarantee

from discreet.core.errors import LedgerError
from discreet.core.events.event_json import to_json
from discreet.ledger import Ledger

PROCESSES = 16
RUNS = 96
STEPS = 301


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    new_database: Callable[[], str] = request.getfixturevalue("postgres")
    return new_database()


def everyone_was_answered(result: dict[str, Any]) -> None:
    members = result["members"]
    assert len(members) == PROCESSES
    assert [member["error"] for member in members] == [None] * PROCESSES
    assert all(member["refused"] for member in members)  # each went on until it was told that nothing is left
    assert max(wait for member in members for wait in member["waits"]) < 20


def test_a_budget_is_never_overspent(where: str) -> None:
    result = crowd(where, "budget", PROCESSES, RUNS)
    everyone_was_answered(result)
    admitted = [run for member in result["members"] for run in member["got"]]
    assert len(admitted) == len(set(admitted)) == RUNS
    ledger = Ledger(where)
    limit, spent = ledger.budget(DATASET)
    assert limit is not None
    assert (spent.runs, spent.epsilon) == (RUNS, RUNS * RUN.epsilon)
    assert spent.epsilon == limit.epsilon
    assert sum(entry.kind != "total" for entry in ledger.walk()) == 1 + RUNS
    ledger.verify()
    ledger.close()


def test_a_filter_over_steps_is_never_overspent(where: str) -> None:
    result = crowd(where, "filter", PROCESSES, 150)
    everyone_was_answered(result)
    charged = [tuple(one) for member in result["members"] for one in member["got"]]
    assert len(charged) == len(set(charged)) == 150
    ledger = Ledger(where)
    assert 150 * RHO <= ledger.budget(DATASET)[1].amounts[0] < 150.5 * RHO
    assert any(entry.kind == "total" for entry in ledger.walk())
    ledger.verify()
    ledger.close()


def test_the_steps_of_a_plan_are_granted_once(where: str) -> None:
    result = crowd(where, "plan", PROCESSES, STEPS)
    everyone_was_answered(result)
    granted = [grant for member in result["members"] for grant in member["got"]]
    granted.sort(key=lambda grant: grant[0])
    events = [plan_of(STEPS).next_block(position)[0] for position in range(STEPS)]
    assert [position for position, _ in granted] == list(range(STEPS))
    assert [event for _, event in granted] == [to_json(event) for event in events]
    ledger = Ledger(where)
    assert ledger.charged_steps(result["run"]) == STEPS
    assert ledger.verify().entries == 2 + -(-STEPS // BLOCK)
    ledger.close()


def test_a_ledger_does_not_work_in_a_forked_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is used on both sides of a fork can corrupt an SQLite file."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(LedgerError, match="forked"):
            ledger.open_run(PLAN, guarantee())
    ledger.open_run(PLAN, guarantee())
    assert ledger.verify().entries == 1
    ledger.close()
