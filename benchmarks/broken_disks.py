"""Disks that fail at each call of a command that writes: full, broken, read-only or forbidden, once or from then on.

python benchmarks/broken_disks.py --state /tmp/disks.json [--ways 8] [--tries 500] [--seed 1] [--only train]

A preloaded library (tests/support/failing_calls.c) fails the calls of Python, SQLite, Arrow and matplotlib alike. The
commands and the rule are in tests/support/broken_disk_cases.py. Each call of each command fails in so many of the eight
--ways, drawn by --seed; with --tries, so many of these are drawn. What was done is kept in --state, so an interrupted
benchmark goes on. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from broken_disk import KINDS, BrokenDisk, Failure, missing
from broken_disk_cases import CASES, Bench


def main() -> None:
    """Fail, look, until every call of every command has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="file to keep count in and to go on from")
    parser.add_argument("--tries", type=int, default=0, help="so many in all, drawn at random [all]")
    parser.add_argument("--ways", type=int, default=1, help="of each call, at most 8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="commands whose name holds this")
    options = parser.parse_args()
    if missing():
        sys.exit(missing())
    state = json.loads(options.state.read_text()) if options.state.exists() else {}
    disk = BrokenDisk()
    cases = [case for case in CASES if options.only in case.name]
    try:
        with tempfile.TemporaryDirectory() as name:
            for number, case in enumerate(cases):
                bench = Bench(disk, Path(name).resolve() / str(number), case)
                seen = state.setdefault(case.name, {"calls": bench.whole.calls, "tries": [], "against": []})
                for failure in failures(bench, options, len(cases)):
                    if [failure.at, failure.kind, failure.lasting] in seen["tries"]:
                        continue
                    against = bench.attempt(failure)
                    seen["tries"].append([failure.at, failure.kind, failure.lasting])
                    seen["against"] += [against] if against else []
                    if against:
                        print(against, flush=True)
                    options.state.write_text(json.dumps(state))
    finally:
        disk.close()
    report(state)


def failures(bench: Bench, options: argparse.Namespace, commands: int) -> list[Failure]:
    """Ways in which a command shall fail, at each of its calls; or some of them."""
    chance = random.Random(f"{options.seed} {bench.case.name}")
    ways = [(kind, lasting) for kind in KINDS for lasting in (False, True)]
    found = [Failure(at, *way) for at in range(bench.whole.calls) for way in chance.sample(ways, options.ways)]
    return chance.sample(found, min(options.tries // commands, len(found))) if options.tries else found


def report(state: dict[str, dict[str, Any]]) -> None:
    """Print a row for each command."""
    print("| command | calls that write | tries | against the rule |\n|---|---|---|---|")
    for name, seen in state.items():
        print(f"| {name} | {seen['calls']} | {len(seen['tries'])} | {len(seen['against'])} |")
    against = sum(len(seen["against"]) for seen in state.values())
    print(f"{sum(len(seen['tries']) for seen in state.values())} tries, {against} against the rule")
    sys.exit(bool(against))


if __name__ == "__main__":
    main()
