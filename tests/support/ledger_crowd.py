"""Many processes on one ledger at once. Run as a script it prints JSON; tests and benchmarks start it as a process.

python ledger_crowd.py WHERE budget|filter|plan PROCESSES LIMIT

| mode   | each process                                  | LIMIT                     |
|--------|-----------------------------------------------|---------------------------|
| budget | opens runs of epsilon 1/8 until it is refused | runs that the budget fits |
| filter | charges steps of its own run on one zCDP budget until it is refused | steps that the budget fits |
| plan   | reserves blocks of 2 steps until it is refused | steps of the plan         |

The processes are forked before any of them opens the ledger, and start together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.core.adjacency import Adjacency
from discreet.core.errors import BudgetExhausted, DiscreetError
from discreet.core.events import Gaussian
from discreet.core.events.event_json import to_json
from discreet.core.guarantee import Guarantee
from discreet.ledger import Budget, Ledger
from discreet.plan import Plan

DATASET = "patients"
RUN = Guarantee(0.125, 2.0**-30, Adjacency.ADD_REMOVE, "pld")
BLOCK = 2
STEP = Gaussian(8.0)
RHO = 1 / 128
"""The zCDP of `STEP`, 1 / (2 noise^2), which the filter rounds up."""


def plan_of(steps: int) -> Plan:
    """A plan of two phases with unequal multipliers."""
    half = steps // 2
    plan = Plan.poisson(
        population=100,
        batch=10,
        steps=steps,
        clip_norm=1.0,
        delta=1e-5,
        noise_multiplier=[(2.0, half), (1.0, steps - half)],
    )
    return plan.model_copy(update={"block": BLOCK})


def crowd(where: str, mode: str, processes: int, limit: int) -> dict[str, Any]:
    """Run the processes from a fresh interpreter; see `_crowd` for what is returned."""
    command = [sys.executable, __file__, where, mode, str(processes), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _crowd(where: str, mode: str, processes: int, limit: int) -> dict[str, Any]:
    """What the processes report, one dict each: admissions, errors, longest wait; and the seconds all took."""
    ledger = Ledger(where)
    plan = plan_of(limit)
    if mode == "budget":
        ledger.set_budget(DATASET, Budget(RUN.epsilon * limit, 0.5))
        run = ""
    elif mode == "filter":
        ledger.set_budget(DATASET, ZcdpFilter((limit + 0.5) * RHO, 1e-6))
        run = ""
    else:
        run = ledger.open_run(plan.fingerprint(), RUN)
        ledger.start_attempt(run, plan.fingerprint())  # one start for all: a later one would end it
    ledger.close()

    start_read, start_write = os.pipe()
    children = []
    for _ in range(processes):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(start_write)
            os.read(start_read, 1)  # returns when the parent closes its end
            with os.fdopen(write, "w") as out:
                json.dump(_member(where, mode, plan, run), out)
            os._exit(0)
        os.close(write)
        children.append(read)
    os.close(start_read)
    started = time.perf_counter()
    os.close(start_write)
    reports = []
    for read in children:
        with os.fdopen(read) as file:
            reports.append(json.loads(file.read() or '{"error": "died", "got": [], "waits": []}'))
    seconds = time.perf_counter() - started
    for _ in children:
        os.wait()
    return {"run": run, "seconds": seconds, "members": reports}


def _member(where: str, mode: str, plan: Plan, run: str) -> dict[str, Any]:
    got: list[Any] = []
    waits: list[float] = []
    refused, error = False, None
    try:
        ledger = Ledger(where)
        attempt = 0
        if mode == "filter":
            run = ledger.open_run(plan.fingerprint(), RUN, DATASET)
            attempt = ledger.start_attempt(run, plan.fingerprint())
        while True:
            began = time.perf_counter()
            try:
                if mode == "budget":
                    got.append(ledger.open_run("sha256:0", RUN, DATASET))
                elif mode == "filter":
                    (receipt,) = ledger.reserve(run, attempt, lambda _: [STEP])
                    got.append((run, receipt.position))
                else:
                    receipts = ledger.reserve(run, attempt, plan.next_block)
                    got += [(receipt.position, to_json(receipt.event)) for receipt in receipts]
            finally:
                waits.append(time.perf_counter() - began)
    except BudgetExhausted:
        refused = True
        ledger.close()
    except (DiscreetError, OSError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return {"got": got, "refused": refused, "error": error, "waits": waits}


if __name__ == "__main__":
    address, kind, crowd_size, most = sys.argv[1:]
    print(json.dumps(_crowd(address, kind, int(crowd_size), int(most))))  # noqa: T201
