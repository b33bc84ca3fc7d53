"""Processes that spend from one budget and are killed at random: never overspent, every grant charged, nobody left out.

python benchmarks/racing_writers.py [--processes 24] [--kills 100] [--rounds 5] [--seed 1]

The race and the rules are in tests/support/ledger_race.py. PostgreSQL is a server of our own on a local socket, or left
out where there is none. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from ledger_race import race
from postgres_server import PostgresServer, find_programs

PER_KILL = 8
"""Grants for each kill, so that there is something left to kill."""


def main() -> None:
    """Race, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--kills", type=int, default=100, help="in each race")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    server = PostgresServer() if importlib.util.find_spec("psycopg") and find_programs() else None
    faults = 0
    print("| ledger | what | kills | granted | charged | least of one process | longest wait over the mean | faults |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    try:
        for name in ["SQLite", *(["PostgreSQL"] if server else [])]:
            for mode in ("steps", "runs"):
                faults += row(name, mode, server, options)
    finally:
        if server is not None:
            server.close()
    sys.exit(bool(faults))


def row(name: str, mode: str, server: PostgresServer | None, options: argparse.Namespace) -> int:
    """Print what came of the races of a kind; how many faults there were."""
    found = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            on_server = server is not None and name == "PostgreSQL"
            where = server.new_database() if server is not None and on_server else f"{folder}/ledger.sqlite"
            limit = options.kills * PER_KILL
            found.append(race(where, mode, options.processes, limit, options.kills, options.seed + number))
    faults = [fault for one in found for fault in one.faults]
    ratio = max(one.longest / one.mean for one in found)
    kills, granted, charged = (sum(getattr(one, of) for one in found) for of in ("kills", "granted", "charged"))
    least = min(one.least for one in found)
    print(f"| {name} | {mode} | {kills} | {granted} | {charged} | {least} | {ratio:.0f} | {faults or 0} |", flush=True)
    return len(faults)


if __name__ == "__main__":
    main()
