"""Processes that spend from one ledger. Top-level functions, because spawned processes import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from discreet.core.errors import BudgetExhausted
from discreet.core.events import to_json
from discreet.ledger import Ledger
from discreet.plan import Plan

Taken = list[tuple[int, dict[str, object]]]


def spend_all(path: Path, run: str, plan_json: str) -> Taken:
    """Reserve blocks until the plan is exhausted; the positions and events that were granted."""
    plan = Plan.model_validate_json(plan_json)
    ledger = Ledger(path)
    attempt = ledger.start_attempt(run)
    taken: Taken = []
    while True:
        try:
            receipts = ledger.reserve(run, attempt, plan.next_block)
        except BudgetExhausted:
            ledger.close()
            return taken
        taken += [(receipt.position, to_json(receipt.event)) for receipt in receipts]
        time.sleep(0.001)


def reserve_and_die(path: Path, run: str, plan_json: str) -> None:
    """Reserve one block and be killed at once, as by `kill -9`."""
    ledger = Ledger(path)
    ledger.reserve(run, ledger.start_attempt(run), Plan.model_validate_json(plan_json).next_block)
    os.kill(os.getpid(), signal.SIGKILL)
