"""What limits a run: the entry that opened it, its own filter, and the budgets of its data set."""

from __future__ import annotations

from sqlalchemy import Connection

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.filters import Filter
from discreet.core.errors import InputError, LedgerError
from discreet.ledger import store
from discreet.ledger.budget import decoded
from discreet.ledger.chain import Entry, check_seal


def opened(connection: Connection, run: str, where: str) -> Entry:
    """The entry that opened a run."""
    found = store.find(connection, run=run, kind="run")
    if not found:
        raise LedgerError(
            f"the ledger {where} knows no run {run}: if it was interrupted before it began, start a new one; else this "
            "is another ledger, or was cut"
        )
    return found[0]


def check_plan(start: Entry, fingerprint: str, how: str = "") -> None:
    """Refuse a start of the run with another plan or initial model than it was opened with. `how`: what mends it."""
    if start.content["plan"] != fingerprint:
        raise InputError(
            "the plan or the initial model differs from those the run was started with; "
            f"{how or 'resume with the same'}, or start a new run"
        )


def refuse_superseded(connection: Connection, run: str, attempt: int) -> None:
    """Refuse a start of the run that a later one has taken over from: each would count its own steps alone."""
    if attempt < len(store.find(connection, run=run, kind="attempt")) - 1:
        raise LedgerError(
            f"run {run[:8]} was started again, and goes on there; this start takes no more steps; nothing was charged"
        )


def filter_of(start: Entry) -> Filter | None:
    """The filter over steps that a run was opened with, if it was."""
    check_seal(start)
    return filters.from_dict(start.content["filter"]) if "filter" in start.content else None


def budgets_of(connection: Connection, dataset: str) -> list[Filter]:
    """The budgets in force, newest last: one for each form of the name that earlier versions stored."""
    last: dict[str, Entry] = {}
    for entry in store.named(connection, "budget", dataset):
        last.pop(entry.dataset, None)
        last[entry.dataset] = entry
    found: list[Filter] = []
    for entry in last.values():
        check_seal(entry)
        budget = decoded(entry.content)
        found = [*(one for one in found if one != budget), budget]
    return found
