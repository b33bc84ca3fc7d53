"""Power cuts after every write of many commands: what is left goes on, or was not begun, and no half folder verifies.

python benchmarks/power_cuts.py --cuts 2000 --seed 1 --state /tmp/cuts.json

Commands take turns; they differ in steps, engines, ledgers and folders. Some cuts of each run are resumed to its end.
The simulated disk is tests/support/power_cuts.py; power_rules.py and power_commands.py are beside it. What was done is
kept in --state, so an interrupted benchmark goes on. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from postgres_server import PostgresServer, find_programs
from power_commands import COMMANDS, on_postgres

ON_POSTGRES = "train, on PostgreSQL"


def main() -> None:
    """Cut, look, until there are enough cuts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, required=True, help="file to keep count in and to go on from")
    options = parser.parse_args()
    state = json.loads(options.state.read_text()) if options.state.exists() else {}
    commands = dict(COMMANDS)
    server = PostgresServer() if importlib.util.find_spec("psycopg") and find_programs() else None
    if server is not None:
        commands[ON_POSTGRES] = partial(on_postgres, server)
    try:
        while sum(one["cuts"] for one in state.values()) < options.cuts:
            name = min(commands, key=lambda name: state.get(name, {"runs": 0})["runs"])
            seen = state.setdefault(name, {"runs": 0, "cuts": 0, "resumed": 0, "against": []})
            with tempfile.TemporaryDirectory() as folder:
                found = commands[name](Path(folder), random.Random(f"{options.seed} {name} {seen['runs']}"))
            seen["runs"] += 1
            seen["cuts"] += found.cuts
            seen["resumed"] += found.resumed
            seen["against"] += found.against
            options.state.write_text(json.dumps(state, indent=1))
    finally:
        if server is not None:
            server.close()
    report(state)


def report(state: dict[str, dict[str, Any]]) -> None:
    """Print a row for each command, and what was against the rule."""
    print("| command | times | cuts | resumed to the end | against the rule |\n|---|---|---|---|---|")
    for name, seen in state.items():
        print(f"| {name} | {seen['runs']} | {seen['cuts']} | {seen['resumed']} | {len(seen['against'])} |")
    against = [one for seen in state.values() for one in seen["against"]]
    print(f"{sum(seen['cuts'] for seen in state.values())} cuts, {len(against)} against the rule")
    print("\n".join(against[:20]))
    sys.exit(bool(against))


if __name__ == "__main__":
    main()
