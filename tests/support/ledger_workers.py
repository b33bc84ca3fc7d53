"""Processes that spend from one ledger. Top-level functions, because spawned processes import them by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from discreet.ledger import Ledger
from discreet.plan import Plan


def reserve_and_die(path: Path, run: str, plan_json: str) -> None:
    """Reserve one block and be killed at once, as by `kill -9`."""
    ledger, plan = Ledger(path), Plan.model_validate_json(plan_json)
    ledger.reserve(run, ledger.start_attempt(run, plan.fingerprint()), plan.next_block)
    os.kill(os.getpid(), signal.SIGKILL)
