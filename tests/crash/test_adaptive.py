"""An adaptive run that dies inside a phase: what was charged stays charged, and the policy goes on with its history."""

from pathlib import Path

import pytest
from crash_runs import CRASH, adaptive_findings, journal
from crash_server import Server

from discreet.core.events import Gaussian, Poisson
from discreet.core.events.event_json import from_json
from discreet.ledger import Ledger
from discreet.publication import verify

STEPS = 4 + 4 + 5 + 3
"""Phases of two epochs on batches of 12, 11 and 10 of 24 rows, and a count after each."""


def charged_events(folder: Path) -> list[object]:
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    found = [entry for entry in ledger.entries() if entry.kind == "reservation"]
    parts = [part for entry in found for part in from_json(entry.content).events]  # type: ignore[union-attr]
    ledger.close()
    return [part.event for part in parts for _ in range(part.count)]


def test_without_a_crash(server: Server, tmp_path: Path) -> None:
    code, said = server(tmp_path, adaptive=True, publish=True)
    assert (code, said) == (0, f"done, {STEPS} charged")
    found = adaptive_findings(tmp_path)
    assert (found.charged, found.released, found.faults) == (STEPS, STEPS, {})
    count = Gaussian(10.0, "count")  # type: ignore[arg-type]
    phases = [
        [Poisson(batch / 24, Gaussian(noise))] * n for batch, noise, n in [(12, 2.0, 4), (11, 3.0, 4), (10, 4.0, 5)]
    ]
    assert charged_events(tmp_path) == [event for phase in phases for event in [*phase, count]]
    assert verify(tmp_path / "out").accepted


@pytest.mark.parametrize(
    ("place", "visit", "lost"),
    [
        ("reserve: before commit", 2, 0),  # nothing of the block was drawn, and nothing is charged
        ("reserve: after commit", 1, 3),
        ("reserve: after commit", 3, 1),  # the count
        ("draw: after", 2, 2),
        ("chunk: after", 1, 3),  # how many chunks a batch has is random, but for the first
        ("noise: before", 5, 1),  # of the count
        ("noise: after", 5, 0),
        ("noise: after", 7, 1),
        ("optimizer: after", 5, 2),
        ("rename checkpoint.json: before", 2, 0),
        ("rename checkpoint.json: after", 3, 0),
        ("publish: before", 1, 0),
    ],
)
def test_a_crash_never_under_charges_and_the_run_goes_on(
    server: Server, tmp_path: Path, place: str, visit: int, lost: int
) -> None:
    code, said = server(tmp_path, adaptive=True, fault=(place, visit), publish=True)
    assert code == CRASH, said
    found = adaptive_findings(tmp_path)
    assert (found.faults, found.charged - found.released) == ({}, lost)
    before = len(journal(tmp_path))

    code, said = server(tmp_path, adaptive=True, resume=True, publish=True)
    assert code == 0, said
    found = adaptive_findings(tmp_path)
    assert (found.faults, found.charged - found.released) == ({}, lost)
    assert found.charged >= STEPS
    assert {release["attempt"] for release in journal(tmp_path)[before:]} <= {1}
    noises = [event.event.noise_multiplier for event in charged_events(tmp_path) if isinstance(event, Poisson)]  # type: ignore[union-attr]
    assert noises == sorted(noises)  # the policy went on from where it was
    assert set(noises) == {2.0, 3.0, 4.0}
    checked = verify(tmp_path / "out")
    assert checked.accepted, checked.checks


def test_crash_after_crash(server: Server, tmp_path: Path) -> None:
    for attempt in range(3):
        code, said = server(tmp_path, adaptive=True, fault=("noise: after", 2), resume=attempt > 0)
        assert code == CRASH, said
        found = adaptive_findings(tmp_path)
        assert (found.charged, found.released, found.faults) == (3 * (attempt + 1), 2 * (attempt + 1), {})
    assert server(tmp_path, adaptive=True, resume=True, publish=True)[0] == 0
    assert adaptive_findings(tmp_path).faults == {}
    assert verify(tmp_path / "out").accepted
