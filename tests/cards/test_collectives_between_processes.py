"""Sums that travel by NCCL between processes that share a card: the bits of one process, and a clean end.

Each process counts as a machine of its own (`by_collectives`), so what they send goes through sockets. Several cards
send between their memories.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from collective_runs import MET, RUNS, alone_digest, check, ends_in_all
from torchrun import started, torchrun

STUCK = ("sums_that_are_not_written",)


@pytest.mark.parametrize("processes", [2, 3, 4])
@pytest.mark.parametrize("shard", RUNS)
def test_several_processes_release_what_one_does(card: str, tmp_path: Path, shard: str, processes: int) -> None:
    def alone(shard: str, name: str) -> str:
        return alone_digest(shard, name, tmp_path / f"alone {name}")

    check(torchrun, alone, shard, processes, tmp_path, RUNS[shard][2])


HANGS = pytest.mark.xfail(
    strict=True, reason="on the card on which it was tried, a process did not end within two minutes; not explained"
)


@pytest.mark.parametrize("name", [pytest.param(one, marks=HANGS if one in STUCK else ()) for one in MET])
def test_what_goes_wrong_ends_the_step_in_all(
    card: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that share a card take turns, so a collective takes long."""
    monkeypatch.setenv("DISCREET_TIMEOUT", "300")
    ends_in_all(started, tmp_path, name, within=120)
