"""Canaries among the training rows: the run's folder keeps which they are, so that whoever goes on with it says so
too."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.core.errors import InputError
from discreet.ledger import Entry
from discreet.plan import AdaptivePlan, Plan
from discreet.training.public.kept_declaration import keep_or_check

_log = logging.getLogger("discreet")
_FILE = "canaries.json"


def check_counted(canaries: DeclaredCanaries | None, plan: Plan | AdaptivePlan) -> None:
    """Refuse a plan whose population cannot have counted the canaries, which are units like all others, or that may
    hold one out: nobody could say that it was trained on."""
    if canaries is None:
        return
    if plan.holdout is not None:
        raise InputError(
            "the holdout may take canaries, which must be trained on; leave out the holdout or the canaries"
        )
    if not canaries.count < plan.population:
        raise InputError(
            f"population counts the canaries too, and is {plan.population:g} with {canaries.count} of them; add their "
            "number to that of the private units"
        )


def declare_canaries(folder: Path, canaries: DeclaredCanaries | None, record: Sequence[Entry]) -> None:
    """Keep the declaration in the run's folder, and log it. `InputError` for a run that has begun with others, or with
    none. `record`: its entries in the ledger."""
    declared = None if canaries is None else canaries.as_dict()
    kept = keep_or_check(folder / _FILE, declared, record, "other canaries, or with none")
    if kept and canaries is not None:
        _log.info("%d made-up texts, public, are among the training rows", canaries.count)
