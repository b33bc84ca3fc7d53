"""Many processes on one ledger: how fast, how evenly, and whether anything was granted twice.

python benchmarks/processes.py --processes 16

One process and many are measured in turn on fresh ledgers; ratios are medians over the rounds. PostgreSQL is a server
of our own on a local socket, or left out where there is none.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from ledger_crowd import BLOCK, DATASET, RHO, RUN, crowd
from postgres_server import PostgresServer, find_programs

from discreet.ledger import Ledger

LIMITS = {"budget": 480, "filter": 480, "plan": 641}
WHAT = {
    "budget": "opening runs under a budget",
    "filter": "charging steps under a zCDP budget",
    "plan": "reserving blocks of a plan",
}


def main() -> None:
    """Print a table for RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        "| ledger | what | per second, one process | ratio with many | least-most per process | longest wait | held |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10**6))
        measure("SQLite", lambda: f"{folder}/{next(numbers)}.sqlite", options.processes, options.rounds)
    if importlib.util.find_spec("psycopg") and find_programs():
        server = PostgresServer()
        try:
            measure("PostgreSQL", server.new_database, options.processes, options.rounds)
        finally:
            server.close()


def measure(name: str, new: Callable[[], str], processes: int, rounds: int) -> None:
    """One row per mode."""
    for mode, limit in LIMITS.items():
        alone, ratios, shares, waits, held = [], [], [], [], True
        for _ in range(rounds):
            speeds = []
            for count in (1, processes):
                where = new()
                result = crowd(where, mode, count, limit)
                held = held and no_overspending(where, mode, limit, result)
                speeds.append((-(-limit // BLOCK) if mode == "plan" else limit) / result["seconds"])
            members = result["members"]
            alone.append(speeds[0])
            ratios.append(speeds[1] / speeds[0])
            shares += [len(member["got"]) for member in members]
            waits.append(max(wait for member in members for wait in member["waits"]))
        what = WHAT[mode]
        print(
            f"| {name} | {what} | {statistics.median(alone):.0f} | {statistics.median(ratios):.2f} | "
            f"{min(shares)}-{max(shares)} of {limit} | {max(waits):.2f} s | {'yes' if held else 'NO'} |"
        )


def no_overspending(where: str, mode: str, limit: int, result: dict[str, Any]) -> bool:
    """Whether precisely what there was has been granted, everyone was answered, and the chain is whole."""
    members = result["members"]
    ledger = Ledger(where)
    ledger.verify()
    if mode == "filter":
        granted = [tuple(one) for member in members for one in member["got"]]
        fair = limit * RHO <= ledger.budget(DATASET)[1].amounts[0] < (limit + 0.5) * RHO
    elif mode == "budget":
        granted = [run for member in members for run in member["got"]]
        fair = ledger.budget(DATASET)[1].epsilon == limit * RUN.epsilon
    else:
        granted = [position for member in members for position, _ in member["got"]]
        fair = ledger.charged_steps(result["run"]) == limit
    ledger.close()
    return fair and len(granted) == len(set(granted)) == limit and all(member["refused"] for member in members)


if __name__ == "__main__":
    main()
