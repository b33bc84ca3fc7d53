"""Small ledgers and ways to damage them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import LedgerError
from discreet.core.events import Event, Gaussian, Poisson
from discreet.core.guarantee import Guarantee
from discreet.ledger import Budget, Ledger

PLAN = "sha256:plan"
STEP = Poisson(0.1, Gaussian(2.0))


def guarantee(
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: Unit = Unit.EXAMPLE,
) -> Guarantee:
    return Guarantee(epsilon, delta, adjacency, "pld", None, unit)


def three(_position: int) -> Sequence[Event]:
    """An admission that always grants three steps."""
    return [STEP] * 3


def filled(path: Path | str) -> tuple[str, int]:
    """A ledger with every kind of entry: the run in it, and how many entries it has."""
    ledger = Ledger(path)
    ledger.set_budget("patients", Budget(10.0, 1e-4))
    run = ledger.open_run(PLAN, guarantee(), "patients")
    attempt = ledger.start_attempt(run, PLAN)
    for _ in range(3):
        receipts = ledger.reserve(run, attempt, three)
        ledger.commit(receipts[-1])
    entries = ledger.verify().entries
    ledger.close()
    return run, entries


def sql(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement behind the ledger's back."""
    connection = sqlite3.connect(Path(path).absolute())
    try:
        found = connection.execute(statement, values).fetchall()
        connection.commit()
        return found
    finally:
        connection.close()


def refused(action: Callable[[], object], *parts: str) -> None:
    """The action is a `LedgerError` of one line that says all of this."""
    with pytest.raises(LedgerError) as caught:
        action()
    said = str(caught.value)
    assert "\n" not in said
    for part in parts:
        assert part in said


def whole(path: Path | str, run: str, steps: int) -> None:
    """The chain is intact and has these charges."""
    ledger = Ledger(path)
    ledger.verify()
    assert ledger.charged_steps(run) == steps
    ledger.close()
