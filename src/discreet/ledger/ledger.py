"""Reservations in a database: nothing is drawn before its charge is durable."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filters import Filter
from discreet.core.errors import InputError, LedgerError
from discreet.core.events import Compose, Event, in_order, steps_of
from discreet.core.events.event_json import from_json, to_json
from discreet.core.guarantee import Guarantee
from discreet.core.processes import refuse_several_processes
from discreet.core.release import Receipt
from discreet.ledger import store
from discreet.ledger.budget import (
    Spent,
    admit_run,
    check_alike,
    check_fixed,
    check_run_filter,
    decoded,
    over_steps,
    spent_by,
)
from discreet.ledger.chain import Entry, check_chain, check_seal, next_entry
from discreet.ledger.entries_table import entries
from discreet.ledger.meter import Meter, Scope, share
from discreet.ledger.names import checked_name, without_budget

NextEvents = Callable[[int], Sequence[Event]]
"""Given how many steps are charged, the events to charge next; raises `BudgetExhausted` to refuse."""

QUERIES = "queries"
"""The name of the engine in an attempt that answers queries instead of training."""

_log = logging.getLogger("discreet")

_CUT = "the ledger is cut: entries are missing; restore it from a copy that `discreet ledger verify` accepts"


@dataclass(frozen=True, slots=True)
class Head:
    """How long the chain is and the hash of its last entry."""

    entries: int
    hash: str


class Ledger:
    """What runs have spent, in an SQLite file or a PostgreSQL database (`postgresql://...`).

    A charge is durable when `reserve` returns (SQLite: write-ahead log, full synchronisation), and is never
    taken back: neither a crash nor an undrawn step lowers it. Filters are evaluated inside the write
    transaction, so any number of processes may share a ledger.
    """

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        self._store = store.Store(where, create=create)
        self._meter = Meter()

    @property
    def where(self) -> str:
        """The absolute path, or the address with its password: opens the same ledger again."""
        return self._store.where

    @property
    def shown(self) -> str:
        """The path, or the address without its password, for messages."""
        return self._store.shown

    def set_budget(self, dataset: str, budget: Filter) -> None:
        """Fix what all runs on `dataset` may spend together. A basic budget may be replaced by another basic one."""
        if not (dataset := checked_name(dataset)):
            raise InputError("a budget belongs to a data set; give its name with --dataset-id")
        with self._store.transaction() as connection:
            runs = _runs(connection, dataset)
            check_alike(budget, _kinds(runs), dataset)
            olds: Sequence[Filter | None] = _budgets(connection, dataset) or [None]
            for old in olds:
                check_fixed(old, budget, len(runs), dataset)
            body = filters.as_dict(budget)
            forms = {entry.dataset for entry in store.named(connection, "budget", dataset)}
            for form in sorted(forms | {dataset}):  # the new budget replaces the last one of each form
                store.append(connection, next_entry(store.last(connection), "budget", body, dataset=form))

    def budget(self, dataset: str) -> tuple[Filter | None, Spent]:
        """The budget of a data set, if it has one, and what its runs were charged."""
        dataset = checked_name(dataset)
        with self._store.transaction() as connection:
            budget = next(reversed(_budgets(connection, dataset)), None)
            spent = spent_by(_charges(_runs(connection, dataset)))
            if budget is None or not over_steps(budget):
                return budget, spent
            amounts = self._meter.spent(connection, Scope(dataset=dataset), budget)
            return budget, replace(spent, amounts=amounts, share=share(budget, amounts))

    def budgets(self) -> list[str]:
        """The names of the data sets that have a budget."""
        with self._store.transaction() as connection:
            return _budgeted(connection)

    def open_run(
        self, plan_fingerprint: str, guarantee: Guarantee, dataset: str = "", own_filter: Filter | None = None
    ) -> str:
        """Open a run and return its identifier; a basic budget of its data set is charged for the whole run.

        Raises `BudgetExhausted`, and writes nothing, if the run does not fit. A data set without a budget has no limit.
        A filter over steps, the data set's or the run's `own_filter`, decides on each block in `reserve`.
        """
        if not isinstance(guarantee, Guarantee):
            raise InputError(f"a run is opened with a guarantee; {type(guarantee).__name__} promises nothing")
        refuse_several_processes()
        run = secrets.token_hex(16)
        check_run_filter(own_filter, guarantee)
        body = {
            "plan": plan_fingerprint,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "adjacency": guarantee.adjacency.value,
            "unit": guarantee.unit.value,
        } | ({} if own_filter is None else {"filter": filters.as_dict(own_filter)})
        dataset, others = checked_name(dataset), list[str]()
        with self._store.transaction() as connection:
            budgets = _budgets(connection, dataset) if dataset else []
            for budget in budgets:
                _check_uncut(connection)
                earlier = _runs(connection, dataset)
                check_alike(budget, _kinds(earlier), dataset)
                admit_run(budget, _charges(earlier), guarantee, dataset)
            if not budgets:
                others = _budgeted(connection)
            store.append(connection, next_entry(store.last(connection), "run", body, dataset=dataset, run=run))
        if others:
            _log.warning("%s", without_budget(dataset, others))
        return run

    def start_attempt(self, run: str, plan_fingerprint: str, mechanism: Mapping[str, object] | None = None) -> int:
        """Record a new start of `run` and return its number, from 0.

        `InputError` unless the plan is the one that the run was opened with, and `mechanism` (engine, noise and
        randomness, which the certificate states for all releases) is that of its first attempt. Answering queries
        before the first step is a separate attempt, with the engine `QUERIES`.
        """
        with self._store.transaction() as connection:
            opened = _opened(connection, run, self.shown)
            _check_uncut(connection)
            if opened.content["plan"] != plan_fingerprint:
                raise InputError(
                    "the plan or the initial model differs from those the run was started with; "
                    "resume with the same, or start a new run"
                )
            body = dict(mechanism or {})
            earlier = store.find(connection, run=run, kind="attempt")
            steps = [entry.content for entry in earlier if entry.content.get("engine") != QUERIES]
            if steps and steps[0] != body:
                first = ", ".join(f"{name} {value!r}" for name, value in steps[0].items())
                raise InputError(f"the run was started with {first}; resume with the same, or start a new run")
            number = len(earlier)
            store.append(connection, next_entry(store.last(connection), "attempt", body, run=run, attempt=number))
        return number

    def reserve(self, run: str, attempt: int, next_events: NextEvents) -> tuple[Receipt, ...]:
        """Charge the next block of steps and return one receipt per step.

        An event that covers several steps (an epoch) is charged whole.
        `next_events` is called inside the write transaction with the number of steps charged so far, so no two
        processes can be granted the same steps. The run's and the data set's filters over steps then check the events;
        if a filter refuses, `BudgetExhausted` is raised and nothing is written.
        """
        with self._store.transaction() as connection:
            opened = _opened(connection, run, self.shown)
            position = _charged(connection, run)
            block = tuple(next_events(position))
            if not block:
                raise LedgerError("the admission granted no step and refused none; nothing was charged")
            event = in_order(block)
            places = [(drawn, index) for drawn in block for index in range(len(steps_of(drawn)))]
            for scope, budget in _filters(connection, opened):
                _check_uncut(connection)
                self._meter.admit(connection, scope, budget, event, len(places))
            entry = next_entry(
                store.last(connection),
                "reservation",
                to_json(event),
                run=run,
                attempt=attempt,
                position=position,
                steps=len(places),
            )
            store.append(connection, entry)
        return tuple(Receipt(run, attempt, position + i, *place) for i, place in enumerate(places))

    def commit(self, receipt: Receipt) -> None:
        """Record that every step up to that of `receipt` was released. The charge does not depend on this record."""
        with self._store.transaction() as connection:
            entry = next_entry(
                store.last(connection),
                "release",
                {},
                run=receipt.run,
                attempt=receipt.attempt,
                position=receipt.position + 1,
            )
            store.append(connection, entry)

    def charged_steps(self, run: str) -> int:
        """How many steps of `run` are charged, drawn or not."""
        with self._store.transaction() as connection:
            return _charged(connection, run)

    def amounts(self, run: str) -> Amounts:
        """What the run's own filter has counted, in its own currency; () if the run has no filter of its own."""
        with self._store.transaction() as connection:
            own = [budget for scope, budget in _filters(connection, _opened(connection, run, self.shown)) if scope.run]
            return self._meter.spent(connection, Scope(run=run), own[0]) if own else ()

    def spent(self, run: str) -> Event:
        """Everything charged to `run`, as one event."""
        return Compose(tuple(from_json(entry.content) for entry in self.entries(run) if entry.kind == "reservation"))

    def entries(self, run: str | None = None) -> Sequence[Entry]:
        """All entries, or those of one run, oldest first; an edited one is a `LedgerError`."""
        with self._store.transaction() as connection:
            found = store.find(connection, **({} if run is None else {"run": run}))
        for entry in found:
            check_seal(entry)
        return found

    def verify(self) -> Head:
        """Walk the whole chain; a cut or an edit is a `LedgerError` that names the entry."""
        with self._store.transaction() as connection:
            found = store.find(connection)
        return Head(*check_chain(found))

    def close(self) -> None:
        """Release the file or the connection."""
        self._store.close()


def _opened(connection: Connection, run: str, where: str) -> Entry:
    """The entry that opened a run."""
    found = store.find(connection, run=run, kind="run")
    if not found:
        raise LedgerError(f"the ledger {where} knows no run {run}; it is another ledger, or was cut")
    return found[0]


def _charged(connection: Connection, run: str) -> int:
    """The number of charged steps; `LedgerError` if a block is missing before the last."""
    ours = entries.c.run == run, entries.c.kind == "reservation"
    total, end = store.figures(
        connection, func.sum(entries.c.steps), func.max(entries.c.position + entries.c.steps), *ours
    )
    if total != end:
        raise LedgerError(_CUT)
    return total


def _check_uncut(connection: Connection) -> None:
    """Refuse a ledger in which a row other than the last ones is missing: entries count from 0 without gaps."""
    count, top = store.figures(connection, func.count(), func.max(entries.c.number) + 1)
    if count != top:
        raise LedgerError(_CUT)


def _filters(connection: Connection, opened: Entry) -> Iterator[tuple[Scope, Filter]]:
    """The filters over steps that limit a run, each with the scope that it counts."""
    check_seal(opened)
    if "filter" in opened.content:
        yield Scope(run=opened.run), filters.from_dict(opened.content["filter"])
    for budget in _budgets(connection, opened.dataset) if opened.dataset else ():
        if over_steps(budget):
            yield Scope(dataset=opened.dataset), budget


def _budgets(connection: Connection, dataset: str) -> list[Filter]:
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


def _budgeted(connection: Connection) -> list[str]:
    """The names of the data sets that have a budget."""
    return list(dict.fromkeys(entry.dataset for entry in store.find(connection, kind="budget")))


def _runs(connection: Connection, dataset: str) -> list[dict[str, Any]]:
    """The contents of the entries that opened the runs on a data set."""
    found = store.named(connection, "run", dataset)
    for entry in found:
        check_seal(entry)
    return [entry.content for entry in found]


def _charges(runs: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(run["epsilon"], run["delta"]) for run in runs]


def _kinds(runs: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(run["adjacency"], run["unit"]) for run in runs]
