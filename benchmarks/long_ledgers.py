"""A ledger of many entries on one budget: how long it takes to open, charge, look and verify, beside an empty one.

python benchmarks/long_ledgers.py --entries 1000000

Entries are written in the form of the ledger, but in one transaction: nobody would wait for a million synchronisations
of a disk. The first charge adds up from the beginning, as in a ledger of an early version; after it there are totals.
Prints rows for RESULTS.md: ratios to a ledger of one run.
"""

from __future__ import annotations

import argparse
import resource
import secrets
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.filters import Filter, ZcdpFilter
from discreet.core.adjacency import Adjacency
from discreet.core.events import Gaussian
from discreet.core.events.event_json import to_json
from discreet.core.guarantee import Guarantee
from discreet.ledger import Budget, Entry, Ledger
from discreet.ledger.budget import opening
from discreet.ledger.chain import next_entry

WHOLE = Guarantee(0.01, 1e-9, Adjacency.ADD_REMOVE, "pld")
STEP = Gaussian(30.0)
BUDGETS: dict[str, Filter] = {"zcdp": ZcdpFilter(1e6, 1e-5), "basic": Budget(1e6, 0.5)}
STEPS_OF_A_RUN, CHARGES = 100, 30


def main() -> None:
    """Print a table for RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    options = parser.parse_args()
    print("| budget | what | milliseconds | over a ledger of one run |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, budget in BUDGETS.items():
            found = []
            for count in (10, options.entries):
                path = Path(folder) / f"{name}{count}.sqlite"
                fill(path, budget, count)
                found.append(measured(path))
            for what, (short, long) in zip(found[0], zip(*(one.values() for one in found), strict=True), strict=True):
                print(f"| {name} | {what} | {1000 * long:.0f} | {long / short:.1f} |")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def fill(path: Path, budget: Filter, count: int) -> None:
    """Write a ledger of so many entries: runs of a hundred steps, each charged and released by itself."""
    Ledger(path).close()
    connection = sqlite3.connect(path)
    places = ",".join("?" * len(Entry.__slots__))
    rows = ([getattr(entry, name) for name in Entry.__slots__] for entry in entries(budget, count))
    connection.executemany(f"INSERT INTO discreet_entries VALUES ({places})", rows)
    connection.commit()
    connection.close()


def entries(budget: Filter, count: int) -> Iterator[Entry]:
    """The chain."""
    last: Entry | None = None

    def following(kind: str, body: object, **columns: Any) -> Entry:
        nonlocal last
        last = next_entry(last, kind, body, **columns)
        return last

    yield following("budget", filters.as_dict(budget), dataset="patients")
    event, written = to_json(STEP), 1
    while written < count:
        run = secrets.token_hex(16)
        yield following("run", {"plan": "sha256:0"} | opening(WHOLE), dataset="patients", run=run)
        yield following("attempt", {}, run=run)
        for position in range(STEPS_OF_A_RUN):
            yield following("reservation", event, run=run, position=position, steps=1)
            yield following("release", {}, run=run, position=position + 1)
        written += 2 + 2 * STEPS_OF_A_RUN


def measured(path: Path) -> dict[str, float]:
    """Seconds of what users do, in a process that has read nothing of the ledger."""
    first = timed(lambda: charged(path, 1))
    opened = timed(lambda: charged(path, 0))
    ledger = Ledger(path)
    run = ledger.open_run("sha256:0", WHOLE, "patients")
    attempt = ledger.start_attempt(run, "sha256:0")
    charges = [timed(lambda: ledger.reserve(run, attempt, lambda _: [STEP])) for _ in range(CHARGES)]
    found = {
        "the first charge of all, which adds up": first,
        "open it and begin a run": opened,
        "charge a step: the first of a process": charges[0],
        "charge a step: median": statistics.median(charges),
        "look at the budget": timed(lambda: ledger.budget("patients")),
        "verify the chain and its totals": timed(ledger.verify),
    }
    ledger.close()
    return found


def charged(path: Path, steps: int) -> None:
    """Open the ledger and begin a run, of so many steps."""
    ledger = Ledger(path)
    run = ledger.open_run("sha256:0", WHOLE, "patients")
    attempt = ledger.start_attempt(run, "sha256:0")
    for _ in range(steps):
        ledger.reserve(run, attempt, lambda _: [STEP])
    ledger.close()


def timed(what: Any) -> float:
    """Seconds."""
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
