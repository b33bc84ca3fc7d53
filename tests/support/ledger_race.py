"""Processes that spend from one budget and are killed at random; run as a script, so that forks find no threads.

python ledger_race.py WHERE steps|runs PROCESSES LIMIT KILLS SEED

| mode  | each process                                              | LIMIT                     |
|-------|-----------------------------------------------------------|---------------------------|
| steps | charges steps of a run of its own on one zCDP budget      | steps that the budget fits |
| runs  | opens runs of epsilon 1/8 on one basic budget             | runs that the budget fits |

until it is refused. What it was granted, it notes at once in a file beside the others', as a release that anybody may
have seen. Whom to kill, and after how many grants in all, is drawn by SEED; another process takes the place of the
killed one, and goes on with its run.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ledger_crowd import DATASET, RHO, RUN, STEP, plan_of

from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.core.errors import BudgetExhausted
from discreet.ledger import Budget, Ledger

LONGEST = 300
"""Seconds after which a race has hung."""


@dataclass(frozen=True)
class Race:
    """What came of a race. `faults` is empty if all is well."""

    granted: int
    charged: int
    kills: int
    least: int
    """The fewest grants of one place among the processes."""
    longest: float
    mean: float
    """The longest wait for an answer, and the mean, in seconds."""
    seconds: float
    faults: list[str]


def race(where: str, mode: str, processes: int, limit: int, kills: int, seed: int) -> Race:
    """Run a race from a fresh interpreter, and hold the ledger against what was granted."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = map(str, (processes, limit, kills, seed))
        command = [sys.executable, __file__, where, mode, *numbers, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * LONGEST)
        assert done.returncode == 0, done.stderr
        noted = [list(_noted(path)) for path in sorted(Path(folder).iterdir())]
    return judged(where, mode, limit, noted, json.loads(done.stdout))


def judged(where: str, mode: str, limit: int, noted: list[list[dict[str, Any]]], told: dict[str, Any]) -> Race:
    """What the processes `noted` held against the ledger. `told`: what was seen of the race from outside."""
    ledger = Ledger(where)
    ledger.verify()  # the chain, and the totals in it
    entries = list(ledger.walk())
    spent = ledger.budget(DATASET)[1]
    ledger.close()
    ours = {entry.run for entry in entries if entry.kind == "run"}
    charged = Counter(
        dict.fromkeys(ours, 1)
        if mode == "runs"
        else {run: sum(one.steps for one in entries if one.kind == "reservation" and one.run == run) for run in ours}
    )
    grants = [(one["run"], one["position"]) for place in noted for one in place if "position" in one]
    waits = [one["wait"] for place in noted for one in place if "wait" in one]
    least = min(sum("position" in one for one in place) for place in noted)
    exact = spent.amounts[0] < (limit + 0.5) * RHO if mode == "steps" else spent.epsilon <= limit * RUN.epsilon
    rules = {
        "overspent": exact and charged.total() <= limit,
        "left over": charged.total() == limit,
        "granted twice": len(set(grants)) == len(grants),
        "granted without a charge": all(position < charged[run] for run, position in grants),
        "lost more than one a kill": charged.total() - len(grants) <= told["kills"],
        "not answered": all(place and "refused" in place[-1] for place in noted),
        "starved": least > 0,
        "hung": not told["hung"],
    }
    return Race(
        len(grants),
        charged.total(),
        told["kills"],
        least,
        max(waits),
        sum(waits) / len(waits),
        told["seconds"],
        [name for name, held in rules.items() if not held],
    )


def _noted(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


# In the fresh interpreter -------------------------------------------------------------------------------------------


class Grants:
    """How many grants each process was given, in memory that they share."""

    def __init__(self, processes: int) -> None:
        self._memory, self._size = mmap.mmap(-1, 8 * processes), processes

    def add(self, place: int) -> None:
        """One more; each process adds in a place of its own."""
        (count,) = struct.unpack_from("q", self._memory, 8 * place)
        struct.pack_into("q", self._memory, 8 * place, count + 1)

    def total(self) -> int:
        """Of all processes."""
        return sum(struct.unpack(f"{self._size}q", self._memory[:]))


def _race(where: str, mode: str, processes: int, limit: int, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    ledger = Ledger(where)
    ledger.set_budget(
        DATASET, ZcdpFilter((limit + 0.5) * RHO, 1e-6) if mode == "steps" else Budget(RUN.epsilon * limit, 0.5)
    )
    ledger.close()
    chance, grants = random.Random(seed), Grants(processes)
    when = sorted(chance.sample(range(1, limit * 9 // 10), kills))
    start = time.monotonic()
    living = {_forked(where, mode, place, limit, folder, grants): place for place in range(processes)}
    done = hung = 0
    while living and not hung:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended and living.pop(ended) is not None and status:
            raise RuntimeError(f"a process ended with {os.waitstatus_to_exitcode(status)}")
        if done < kills and grants.total() >= when[done]:
            time.sleep(chance.uniform(0, 0.01))
            victim = chance.choice(sorted(living, key=lambda process: living[process]))
            os.kill(victim, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])
            if code not in (0, -signal.SIGKILL):
                raise RuntimeError(f"a process ended with {code}")
            done += code == -signal.SIGKILL
            place = living.pop(victim)
            living[_forked(where, mode, place, limit, folder, grants)] = place
        elif not ended:
            time.sleep(0.001)
        hung = time.monotonic() - start > LONGEST
    for process in living:
        os.kill(process, signal.SIGKILL)
    return {"kills": done, "hung": bool(hung), "seconds": time.monotonic() - start}


def _forked(where: str, mode: str, place: int, limit: int, folder: Path, grants: Grants) -> int:
    child = os.fork()
    if child == 0:
        _end_with(where, mode, place, limit, folder / f"{place:03d}", grants)
    return child


def _end_with(where: str, mode: str, place: int, limit: int, path: Path, grants: Grants) -> NoReturn:
    code = 1
    try:
        _member(where, mode, place, limit, path, grants)
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _member(where: str, mode: str, place: int, limit: int, path: Path, grants: Grants) -> None:
    run = next((one["run"] for one in _noted(path) if "run" in one), "") if path.exists() else ""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger, print_of_plan = Ledger(where), plan_of(limit).fingerprint()

    def note(**facts: Any) -> None:
        os.write(file, (json.dumps(facts) + "\n").encode())

    try:
        if mode == "steps":
            if not run:
                run = ledger.open_run(print_of_plan, RUN, DATASET)
                note(run=run)
            attempt = ledger.start_attempt(run, print_of_plan)
        while True:
            began = time.perf_counter()
            if mode == "steps":
                (receipt,) = ledger.reserve(run, attempt, lambda _: [STEP])
                position = receipt.position
            else:
                run, position = ledger.open_run(print_of_plan, RUN, DATASET), 0
            note(run=run, position=position, wait=time.perf_counter() - began)
            grants.add(place)
    except BudgetExhausted:
        note(refused=True)
    finally:
        ledger.close()


if __name__ == "__main__":
    address, kind, *given, notes = sys.argv[1:]
    print(json.dumps(_race(address, kind, *map(int, given), Path(notes))))  # noqa: T201
