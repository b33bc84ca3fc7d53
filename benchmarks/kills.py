"""SIGKILL a training run at random times, resume it, and compare the ledger with what was released.

python benchmarks/kills.py --kills 200 --seed 1 --state /tmp/kills
python benchmarks/kills.py --kills 200 --seed 1 --state /tmp/more --postgres    the ledger in a database of its own

Every release is noted durably by the run itself, as soon as its noise is drawn and before anyone could have seen it.
After each kill the ledger's chain is walked and each release must have a charge of its own, with the event of the plan
at its position, and noise that no release had before. A finished run is published and verified, and a new one begins.
What was done is kept in --state, so an interrupted benchmark goes on where it was, or with the next run if the database
is gone. Prints a row for RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from crash_runs import begun, findings, journal, plan
from crash_server import Server
from postgres_server import PostgresServer

from discreet import verify

PHASES = [(2.0, 5), (1.0, 11), (3.0, 7), (1.5, 17)]
BLOCK = 4
PLAN = plan(PHASES, BLOCK)


@dataclass
class State:
    """What was seen so far; saved after every attempt."""

    seed: int
    attempts: int = 0
    kills: int = 0
    folder: int = 0
    runs: int = 0
    """Runs that were finished, published and verified."""
    abandoned: int = 0
    """Killed before the run was in the ledger, so that there was nothing to resume."""
    charged: int = 0
    lost: int = 0
    most_lost: int = 0
    """Charged steps that were never released: over all finished runs, and after one kill at most."""
    under_charge: int = 0
    out_of_order: int = 0
    other: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=1))
        os.replace(draft, path)


def main() -> None:
    """Kill, resume, compare, until there are enough kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=0.4, help="seconds until the kill, at most")
    parser.add_argument("--state", type=Path, required=True, help="folder to work in and to go on from")
    parser.add_argument("--postgres", action="store_true", help="ledgers in a PostgreSQL server of our own")
    options = parser.parse_args()

    options.state.mkdir(parents=True, exist_ok=True)
    saved = options.state / "state.json"
    state = State(**json.loads(saved.read_text())) if saved.exists() else State(options.seed)
    server = Server()
    database = PostgresServer() if options.postgres else None
    addresses: dict[int, str] = {}
    state.folder += database is not None and (options.state / str(state.folder)).exists()
    while state.kills < options.kills:
        if database is not None and state.folder not in addresses:
            addresses[state.folder] = database.new_database()
        address = addresses.get(state.folder, "")
        attempt(server, options.state / str(state.folder), state, options.longest, address)
        state.save(saved)
    server.close()
    if database is not None:
        database.close()
    report(options.state, state)


def attempt(server: Server, folder: Path, state: State, longest: float, address: str) -> None:
    """One start of the run in `folder`, killed after a random time, and what the ledger says afterwards."""
    chance = random.Random(f"{state.seed} {state.attempts}")
    wait = chance.uniform(0, longest) * chance.choice([1, 1, 1, 6])  # publishing takes longer than the steps
    folder.mkdir(exist_ok=True)
    resume = begun(folder, address)
    if (folder / "run").exists() and not resume:  # killed before the run was charged: nothing was released
        state.abandoned += 1
        assert not journal(folder)
        state.folder += 1
        return
    before = findings(folder, PLAN, address)
    ledger = {"ledger": address} if address and not resume else {}
    code, said = server(folder, resume=resume, phases=PHASES, block=BLOCK, kill_after=wait, publish=True, **ledger)
    after = findings(folder, PLAN, address)
    state.attempts += 1
    state.under_charge = max(state.under_charge, after.under_charge)
    state.out_of_order = max(state.out_of_order, after.out_of_order)
    state.most_lost = max(state.most_lost, (after.charged - after.released) - (before.charged - before.released))
    if code == -9:
        state.kills += 1
    elif code != 0:
        state.other.append(said)
    if (folder / "out").exists():
        if not verify(folder / "out").accepted:
            state.other.append(f"{folder}/out is rejected")
        state.runs += 1
    if (folder / "out").exists() or code not in (0, -9):
        state.charged += after.charged
        state.lost += after.charged - after.released
        state.folder += 1


def report(where: Path, state: State) -> None:
    """Print the figures and the row."""
    words = Counter(release["words"] for folder in where.glob("[0-9]*") for release in journal(folder))
    reused = sum(count - 1 for count in words.values())
    print(f"{state.attempts} attempts, {state.abandoned} killed before there was a run; other ends: {state.other}")
    print(f"at most {state.most_lost} steps lost by one kill (blocks of {BLOCK})")
    print("| kills | seed | runs finished and verified | releases | under-charge | noise used twice | lost steps |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {state.kills} | {state.seed} | {state.runs} | {words.total()} | {state.under_charge} | {reused} | "
        f"{state.lost} of {state.charged} |"
    )
    if state.under_charge or state.out_of_order or reused or state.other:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
