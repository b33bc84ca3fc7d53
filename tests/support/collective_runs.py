"""Runs whose sums travel by collectives, for the tests of them between processors and on a card."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sharded_runs
import shared_runs
from met import check_met

RUNS: Mapping[str, tuple[Any, str, tuple[str, ...]]] = {
    "replicate": (shared_runs, "shared_runs.py", ("vmap, exact noise", "adaptive clipping", "metrics")),
    "fully": (sharded_runs, "sharded_runs.py", ("bookkeeping, Adam", "bfloat16", "rows that fail")),
}
GONE = "has ended or does not answer"
MET: dict[str, tuple[str, int]] = {
    "a_sum_that_is_rounded": ("collectives of (gloo|nccl) do not add whole numbers exactly. Nothing was charged", 0),
    "a_sum_that_is_not_written": (GONE, 2),
    "sums_that_are_not_written": (GONE, 2),
    "means_that_are_not_written": (GONE, 2),
    "weights_that_are_not_written": (GONE, 2),
    "weights_of_before": (GONE, 2),
    "a_failure_to_begin": (GONE, 2),
    "a_process_that_is_gone_before_the_sum": (GONE, 2),
    "a_process_that_is_gone_in_a_pass": (GONE, 2),
    "a_failure_before_the_sum": (f"{GONE}|process 1: it failed with KeyError", 2),  # on a card it fails earlier
    "a_collective_that_does_not_end": (GONE, 2),
}
"""What processes say, and how many steps were released before."""

OWN = {
    "a_process_that_is_gone_before_the_sum": "gone",
    "a_process_that_is_gone_in_a_pass": "gone",
    "a_failure_before_the_sum": "KeyError",
}
"""The error of the second process, where it is its own."""


def alone_digest(shard: str, name: str, folder: Path) -> str:
    """What one process releases in a case."""
    runs, _, _ = RUNS[shard]
    digest: str = runs.digest_of(runs.CASES[name], folder, {"shard": "replicate", "lanes": runs.LANES})[0]
    return digest


def check(
    start: Callable[..., str],
    alone: Callable[[str, str], str],
    shard: str,
    processes: int,
    folder: Path,
    names: tuple[str, ...],
) -> None:
    """So many processes release what one does."""
    (line,) = start(processes, "by_collectives.py", RUNS[shard][1], str(folder), *names).splitlines()
    assert json.loads(line) == {name: alone(shard, name) for name in names}


def ends_in_all(start: Callable[..., Any], folder: Path, name: str, within: float) -> None:
    """What goes wrong ends the step in both processes, within so many seconds: long before they would have waited long
    enough for each other."""
    began = time.monotonic()
    start(2, "collective_mistakes.py", str(folder), name, timeout=within + 10)
    assert time.monotonic() - began < within
    check_met(folder, name, MET[name], OWN)
