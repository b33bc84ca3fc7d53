"""A run that dies at any boundary: nothing is released unpaid, nothing is paid back, no noise comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crash_runs import CRASH, STEPS, findings, journal
from crash_server import Server

from discreet import verify
from discreet.ledger import Ledger

RESUMES = [
    ("start_attempt: before commit", 1),
    ("start_attempt: after commit", 1),
    ("reserve: begin", 1),
    ("reserve: before commit", 1),
    ("reserve: before commit", 2),
    ("reserve: after commit", 1),
    ("reserve: after commit", 3),
    ("draw: before", 2),
    ("draw: after", 4),
    ("chunk: after", 1),
    ("chunk: after", 8),
    ("noise: before", 1),
    ("noise: before", 5),
    ("noise: after", 1),
    ("noise: after", 6),
    ("optimizer: after", 3),
    ("optimizer: after", 10),
    ("commit: before commit", 1),
    ("commit: after commit", 2),
    ("checkpoint: before the draft", 1),
    ("checkpoint: half a draft", 1),
    ("checkpoint: half a draft", 2),
    ("checkpoint: half a draft", 3),
    ("checkpoint: half a draft", 4),
    ("rename part: before", 2),
    ("rename part: after", 2),
    ("rename checkpoint.json: before", 2),
    ("rename checkpoint.json: after", 2),
    ("rename checkpoint.json: after", 4),
    ("unlink part: before", 1),
    ("open_run: after commit", 1),
    ("publish: before", 1),
    ("rename out: before", 1),
]
"""Places after which the run goes on, with the visit at which it dies."""

NEVER_BEGAN = [
    ("folder: after", 1, "holds no run that can be resumed"),
    ("open_run: begin", 1, "holds no run that can be resumed"),
    ("rename run.json: before", 1, "holds no run that can be resumed"),
    ("rename run.json: after", 1, "if it was interrupted before it began, start a new one"),
    ("open_run: before commit", 1, "if it was interrupted before it began, start a new one"),
]
"""Places before the run is in the ledger, and what is said when it is to go on."""

PUBLISHED = [
    ("rename out: after", 1),
    ("publish: after", 1),
    ("destroy key: before", 1),
    ("unlink key: before", 1),
    ("destroy key: after", 1),
    ("unlink checkpoint.json: before", 1),
    ("destroy checkpoint.json: after", 1),
    ("destroy part: before", 1),
]
"""Places after the folder has appeared."""


def losses(folder: Path) -> int:
    """Charged steps that were not released; the comparison itself must find no fault."""
    found = findings(folder)
    assert found.faults == {}
    assert found.charged >= found.released
    return found.charged - found.released


def released_before_the_crash(folder: Path) -> int:
    return len(journal(folder))


@pytest.mark.parametrize(("place", "visit"), RESUMES)
def test_a_crash_costs_at_most_its_block_and_the_run_goes_on(
    server: Server, tmp_path: Path, place: str, visit: int
) -> None:
    code, said = server(tmp_path, fault=(place, visit), publish=True)
    assert code == CRASH, said
    assert 0 <= losses(tmp_path) <= 3  # a block
    assert not (tmp_path / "out").exists()
    before = released_before_the_crash(tmp_path)

    code, said = server(tmp_path, resume=True, publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    assert 0 <= losses(tmp_path) <= 3
    attempts = [release["attempt"] for release in journal(tmp_path)]
    assert set(attempts[:before]) <= {0}
    assert len(set(attempts[before:])) <= 1
    assert set(attempts[before:]).isdisjoint(attempts[:before])
    assert verify(tmp_path / "out").accepted
    assert not (tmp_path / "run" / "key").exists()


@pytest.mark.parametrize(
    ("place", "visit"), [("reserve: after commit", 1), ("noise: after", 1), ("optimizer: after", 2)]
)
def test_crash_after_crash_every_block_is_paid_once(server: Server, tmp_path: Path, place: str, visit: int) -> None:
    for attempt in range(3):
        code, said = server(tmp_path, fault=(place, visit), resume=attempt > 0)
        assert code == CRASH, said
        assert findings(tmp_path).charged == 3 * (attempt + 1)
        losses(tmp_path)
    assert server(tmp_path, resume=True, publish=True)[0] == 0
    assert findings(tmp_path).charged == STEPS
    assert losses(tmp_path) == 9 - 3 * {"reserve": 0, "noise": 1, "optimizer": 2}[place.split(":")[0]]
    assert verify(tmp_path / "out").accepted


@pytest.mark.parametrize(("place", "visit", "told"), NEVER_BEGAN)
def test_a_crash_before_the_run_is_charged_releases_nothing(
    server: Server, tmp_path: Path, place: str, visit: int, told: str
) -> None:
    code, said = server(tmp_path, fault=(place, visit))
    assert code == CRASH, said
    found = findings(tmp_path)
    assert (found.charged, found.released) == (0, 0)
    code, said = server(tmp_path, resume=True)
    assert code == 1
    assert told in said
    code, said = server(tmp_path)
    assert "exists already" in said or "delete it" in said
    assert findings(tmp_path).charged == 0


@pytest.mark.parametrize(("place", "visit"), PUBLISHED)
def test_a_crash_after_publishing_leaves_the_whole_folder(
    server: Server, tmp_path: Path, place: str, visit: int
) -> None:
    code, said = server(tmp_path, fault=(place, visit), publish=True)
    assert code == CRASH, said
    assert verify(tmp_path / "out").accepted
    assert losses(tmp_path) == 0
    before = journal(tmp_path)

    code, said = server(tmp_path, resume=True, publish=True)
    assert code == 1
    assert "exists already" in said or "holds no run that can be resumed" in said
    assert journal(tmp_path) == before
    assert findings(tmp_path).charged == STEPS
    assert verify(tmp_path / "out").accepted


def test_a_key_that_was_only_overwritten_is_not_used(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path, fault=("unlink key: before", 1), publish=True)[0] == CRASH
    assert (tmp_path / "run" / "key").read_bytes() == bytes(32)
    assert "holds no run" in server(tmp_path, resume=True)[1]


@pytest.mark.parametrize(("place", "runs"), [("open_run: before commit", 0), ("open_run: after commit", 1)])
def test_a_start_that_crashes_is_charged_and_goes_on_or_is_not_charged(
    server: Server, tmp_path: Path, place: str, runs: int
) -> None:
    """A budget is charged for a whole run when it opens; whatever resumes it was written before."""
    shared = str(tmp_path / "shared.sqlite")
    code, _ = server(tmp_path, fault=(place, 1), ledger=shared, dataset_id="patients")
    assert code == CRASH
    ledger = Ledger(shared)
    assert ledger.budget("patients")[1].runs == runs
    assert (server(tmp_path, resume=True)[0] == 0) == bool(runs)
    assert ledger.budget("patients")[1].runs == runs
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("place", ["reserve: before commit", "reserve: after commit", "noise: after"])
def test_crashes_with_a_ledger_in_postgresql(
    server: Server, tmp_path: Path, postgres: Callable[[], str], place: str
) -> None:
    address = postgres()
    code, said = server(tmp_path, fault=(place, 2), ledger=address)
    assert code == CRASH, said
    assert findings(tmp_path, address=address).faults == {}
    code, said = server(tmp_path, resume=True, publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    found = findings(tmp_path, address=address)
    assert found.faults == {}
    assert found.charged - found.released == {"reserve: after commit": 3, "noise: after": 1}.get(place, 0)
    assert verify(tmp_path / "out").accepted
