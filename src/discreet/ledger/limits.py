"""The filters that limit a run: those of its data set, and its own."""

from __future__ import annotations

from sqlalchemy import Connection

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.filters import Filter
from discreet.ledger import store
from discreet.ledger.budget import decoded
from discreet.ledger.chain import Entry, check_seal


def filter_of(opened: Entry) -> Filter | None:
    """The filter over steps that a run was opened with, if it was."""
    check_seal(opened)
    return filters.from_dict(opened.content["filter"]) if "filter" in opened.content else None


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
