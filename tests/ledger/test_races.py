"""Many writers on one budget, killed at random: never overspent, every grant charged, nobody left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_crowd import DATASET, RUN
from ledger_race import judged, race
from postgres_server import PostgresServer

from discreet.ledger import Budget, Ledger

Notes = list[list[dict[str, Any]]]


@pytest.mark.parametrize("mode", ["steps", "runs"])
@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"])
def test_killed_writers_never_overspend(tmp_path: Path, request: pytest.FixtureRequest, kind: str, mode: str) -> None:
    if kind == "SQLite":
        where = str(tmp_path / "ledger.sqlite")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        where = server.new_database()
    found = race(where, mode, processes=12, limit=360, kills=40, seed=7)
    assert found.faults == []
    assert found.kills == 40
    assert found.charged == 360


def granted(ledger: Ledger) -> tuple[dict[str, Any], ...]:
    run = ledger.open_run("sha256:0", RUN, DATASET)
    return ({"run": run, "position": 0, "wait": 0.1}, {"refused": True})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda noted: None, None),
        (lambda noted: noted[0].insert(0, {"run": "other", "position": 0, "wait": 0.1}), "granted without a charge"),
        (lambda noted: noted[0].insert(0, noted[1][0]), "granted twice"),
        (lambda noted: noted[1].pop(), "not answered"),
        (lambda noted: noted[1].pop(0), "starved"),
    ],
)
def test_what_a_ledger_should_not_do_is_found(
    tmp_path: Path, change: Callable[[Notes], object], fault: str | None
) -> None:
    where = str(tmp_path / "ledger.sqlite")
    ledger = Ledger(where)
    ledger.set_budget(DATASET, Budget(2 * RUN.epsilon, 0.5))
    noted = [list(granted(ledger)) for _ in range(2)]
    ledger.close()
    told = {"kills": 1, "hung": False, "seconds": 1.0}
    change(noted)
    assert judged(where, "runs", 2, noted, told).faults == ([] if fault is None else [fault])
    assert "overspent" in judged(where, "runs", 1, noted, told).faults
    assert "left over" in judged(where, "runs", 3, noted, told).faults
