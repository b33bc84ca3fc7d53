"""Reservations in a database: nothing is drawn before its charge is durable."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from discreet.core.html import fact_table
from discreet.core.processes import refuse_several_processes
from discreet.core.release import Receipt
from discreet.ledger import store
from discreet.ledger.budget import Spent, check_alike, check_fixed, check_run_filter, in_words, opening, over_steps
from discreet.ledger.chain import Entry, Head, check_chain, check_seal, next_entry, salted, told
from discreet.ledger.entries_table import entries
from discreet.ledger.limits import budgets_of, check_plan, filter_of, opened, refuse_superseded
from discreet.ledger.meter import Meter, admit, check_priced, share
from discreet.ledger.names import checked_name, without_budget
from discreet.ledger.totals import Totals, recount

NextEvents = Callable[[int], Sequence[Event]]
"""Given how many steps are charged, the events to charge next; raises `BudgetExhausted` to refuse."""

QUERIES = "queries"
"""The name of the engine in an attempt that answers queries instead of training."""

_log = logging.getLogger("discreet")

_TOP = func.max(entries.c.number) + 1

_CUT = "the ledger is cut: entries are missing; restore it from a copy that `discreet ledger verify` accepts"


class Ledger:
    """The record of what runs have spent, in an SQLite file or a PostgreSQL database (`postgresql://...`).

    A charge is durable when `reserve` returns (SQLite: write-ahead log, full synchronisation), and is never
    taken back: neither a crash nor an undrawn step lowers it. Filters are evaluated inside the write
    transaction, so any number of processes may share a ledger.
    """

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        self._store = store.Store(where, create=create)
        self._meter, self._totals = Meter(), Totals()
        self._charged: dict[str, tuple[int, int]] = {}
        self._uncut: dict[str, int] = {}
        self._committed: Entry | None = None
        self._last: Entry | None = None

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
        with self._transaction() as connection:
            budgets = budgets_of(connection, dataset)
            earlier = self._totals.of(connection, dataset, budgets, self._length).charged
            check_alike(budget, earlier.kinds, dataset)
            olds: Sequence[Filter | None] = budgets or [None]
            for old in olds:
                check_fixed(old, budget, earlier.runs, dataset)
            body, forms = filters.as_dict(budget), {*store.forms(connection, "budget", dataset), dataset}
            for form in sorted(forms):  # the new budget replaces the last one of each form
                self._append(connection, "budget", body, dataset=form)
        self._store.settle()

    def budget(self, dataset: str) -> tuple[Filter | None, Spent]:
        """The budget of a data set, if it has one, and what its runs were charged."""
        dataset = checked_name(dataset)
        with self._transaction() as connection:
            budgets = budgets_of(connection, dataset)
            total = self._totals.within(connection, dataset, budgets, self._length)
            budget, spent = next(reversed(budgets), None), total.charged.spent
            if budget is None or not over_steps(budget):
                return budget, spent
            amounts = total.amounts[budget]
            return budget, replace(spent, amounts=amounts, share=share(budget, amounts))

    def budgets(self) -> list[str]:
        """The names of the data sets that have a budget."""
        with self._transaction() as connection:
            return store.names(connection, "budget")

    def _repr_html_(self) -> str:
        """For notebooks: what each data set with a budget has spent of it."""
        return fact_table(f"Ledger {self.shown}", {name: in_words(*self.budget(name)) for name in self.budgets()})

    def open_run(
        self,
        plan_fingerprint: str,
        guarantee: Guarantee,
        dataset: str = "",
        own_filter: Filter | None = None,
        remember: Callable[[str], None] = lambda run: None,
        event: Event | None = None,
    ) -> str:
        """Open a run and return its identifier; a basic budget of its data set is charged for the whole run.

        `remember` is told the identifier before anything is charged, so that no charge is without a name.
        Raises `BudgetExhausted`, and writes nothing, if the run does not fit. A data set without a budget has no limit.
        A filter over steps, the data set's or the run's `own_filter`, decides on each block in `reserve`; the data
        set's must have a price for each part of `event`, all that the run may release, else it is `NotProved`.
        """
        if not isinstance(guarantee, Guarantee):
            raise InputError(f"a run is opened with a guarantee; {type(guarantee).__name__} promises nothing")
        refuse_several_processes()
        check_run_filter(own_filter, guarantee)
        body = {"plan": plan_fingerprint} | opening(guarantee)
        body |= {} if own_filter is None else {"filter": filters.as_dict(own_filter)}
        dataset, others, run = checked_name(dataset), list[str](), secrets.token_hex(16)
        remember(run)
        with self._transaction() as connection:
            budgets = budgets_of(connection, dataset) if dataset else []
            if budgets:
                self._check_uncut(connection, dataset)
                self._totals.admit(connection, dataset, budgets, self._length, guarantee, event)
                self._note_total(connection, dataset)
            else:
                others = store.names(connection, "budget")
            self._append(connection, "run", body, dataset=dataset, run=run)
        self._store.settle()
        if others:
            _log.warning("%s", without_budget(dataset, others))
        return run

    def check_room(self, guarantee: Guarantee, dataset: str, event: Event | None = None) -> None:
        """Raise what `open_run` would if such a run was opened now; nothing is written."""
        dataset = checked_name(dataset)
        with self._transaction() as connection:
            budgets = budgets_of(connection, dataset)
            self._totals.admit(connection, dataset, budgets, self._length, guarantee)
        for budget in budgets:  # nobody waits for what this takes; `open_run` finds most of it known
            check_priced(budget, event, dataset)

    def start_attempt(
        self, run: str, plan_fingerprint: str, mechanism: Mapping[str, object] | None = None, how: str = ""
    ) -> int:
        """Record a new start of `run` and return its number, from 0.

        `InputError` unless the plan is the one that the run was opened with, and `mechanism` (engine, noise and
        randomness, which the certificate states for all releases) is that of its first attempt. `how` mends another
        plan, in words. Answering queries before the first step is a separate attempt, with the engine `QUERIES`.
        """
        with self._transaction() as connection:
            start = opened(connection, run, self.shown)
            self._check_uncut(connection, start.dataset)
            self._check_uncut(connection, run, start.number)
            check_plan(start, plan_fingerprint, how)
            body = dict(mechanism or {})
            earlier = store.find(connection, run=run, kind="attempt")
            steps = [told(entry) for entry in earlier if entry.content.get("engine") != QUERIES]
            if steps and steps[0] != body:
                first = ", ".join(f"{name} {value!r}" for name, value in steps[0].items())
                raise InputError(f"the run was started with {first}; resume with the same, or start a new run")
            number = len(earlier)
            self._append(connection, "attempt", salted(body), run=run, attempt=number)
        return number

    def reserve(self, run: str, attempt: int, next_events: NextEvents) -> tuple[Receipt, ...]:
        """Charge the next block of steps and return one receipt per step.

        An event that covers several steps (an epoch) is charged whole.
        `next_events` is called inside the write transaction with the number of steps charged so far, so no two
        processes can be granted the same steps. The run's and the data set's filters over steps then check the events;
        if a filter refuses, `BudgetExhausted` is raised and nothing is written. A later start ends this one."""
        with self._transaction() as connection:
            start = opened(connection, run, self.shown)
            refuse_superseded(connection, run, attempt)
            position = self._charged_so_far(connection, run)
            block = tuple(next_events(position))
            if not block:
                raise LedgerError("the admission granted no step and refused none; nothing was charged")
            event = in_order(block)
            places = [(drawn, index) for drawn in block for index in range(len(steps_of(drawn)))]
            self._admit(connection, start, event, len(places))
            where = {"attempt": attempt, "position": position, "steps": len(places)}
            self._append(connection, "reservation", to_json(event), run=run, **where)
        return tuple(Receipt(run, attempt, position + i, *place) for i, place in enumerate(places))

    def commit(self, receipt: Receipt) -> None:
        """Record that every step up to that of `receipt` was released. The charge does not depend on this record."""
        with self._transaction() as connection:
            where = {"attempt": receipt.attempt, "position": receipt.position + 1}
            self._append(connection, "release", {}, run=receipt.run, **where)

    def charged_steps(self, run: str) -> int:
        """The number of steps of `run` that are charged, drawn or not."""
        with self._transaction() as connection:
            return self._charged_so_far(connection, run)

    def amounts(self, run: str) -> Amounts:
        """The count of the run's own filter, in its own currency; () if the run has no filter of its own."""
        with self._transaction() as connection:
            own = filter_of(opened(connection, run, self.shown))
            return () if own is None else self._meter.spent(connection, run, own)

    def spent(self, run: str) -> Event:
        """Everything charged to `run`, as one event."""
        return Compose(tuple(from_json(entry.content) for entry in self.entries(run) if entry.kind == "reservation"))

    def entries(self, run: str | None = None) -> Sequence[Entry]:
        """All entries, or those of one run, oldest first; an edited one is a `LedgerError`."""
        with self._transaction() as connection:
            found = store.find(connection, **({} if run is None else {"run": run}))
        for entry in found:
            check_seal(entry)
        return found

    def walk(self) -> Iterator[Entry]:
        """All entries, oldest first, a part at a time; an edited one is a `LedgerError`."""
        for entry in self._stored():
            check_seal(entry)
            yield entry

    def verify(self) -> Head:
        """Walk the whole chain and add up its totals; a cut or an edit is a `LedgerError` that names the entry."""
        return Head(*check_chain(recount(self._stored())))

    def _stored(self) -> Iterator[Entry]:
        following: int | None = None
        while True:
            with self._store.reading() as connection:
                found = store.walk(connection, following)
            if not found:
                return
            yield from found
            following = found[-1].number + 1

    def close(self) -> None:
        """Release the file or the connection."""
        self._store.close()

    def _admit(self, connection: Connection, start: Entry, event: Event, steps: int) -> None:
        """Raise `BudgetExhausted` unless the next steps fit the filters over steps that limit their run."""
        check_seal(start)
        own = filter_of(start)
        budgets = budgets_of(connection, start.dataset) if start.dataset else []
        if own is not None:
            self._check_uncut(connection, start.run, start.number)
            admit(own, self._meter.spent(connection, start.run, own), event, steps, f"run {start.run[:8]}")
        if any(map(over_steps, budgets)):
            self._check_uncut(connection, start.dataset)
            total = self._totals.within(connection, start.dataset, budgets, self._length)
            for budget in filter(over_steps, budgets):
                admit(budget, total.amounts[budget], event, steps, f"data set {start.dataset!r}")
            self._note_total(connection, start.dataset)

    def _charged_so_far(self, connection: Connection, run: str) -> int:
        """The number of charged steps; `LedgerError` if a block is missing before the last. Each row is read once."""
        last, before = self._charged.get(run, (-1, 0))
        ours = entries.c.run == run, entries.c.kind == "reservation", entries.c.number > last
        total, end, top = store.figures(
            connection, [func.sum(entries.c.steps), func.max(entries.c.position + entries.c.steps), _TOP], *ours
        )
        if top and before + total != end:
            raise LedgerError(_CUT)
        if top:
            self._charged[run] = top - 1, end
        return before + total

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A write transaction. Where a copy was written over the ledger, what was read of it is forgotten."""
        with self._store.transaction() as connection:
            before = self._committed
            again, self._last = store.ends(connection, -1 if before is None else before.number)
            if before is not None and (again is None or again.hash != before.hash):
                for read in (self._meter, self._totals, self._charged, self._uncut):
                    read.clear()
            self._committed = self._last
            yield connection

    @property
    def _length(self) -> int:
        """The number that the next entry gets, in a transaction."""
        return 0 if self._last is None else self._last.number + 1

    def _append(self, connection: Connection, kind: str, body: object, **columns: Any) -> None:
        self._last = next_entry(self._last, kind, body, **columns)
        store.append(connection, self._last)

    def _note_total(self, connection: Connection, dataset: str) -> None:
        if (content := self._totals.due(dataset)) is not None:
            self._append(connection, "total", content, dataset=dataset)

    def _check_uncut(self, connection: Connection, scope: str, first: int = 0) -> None:
        """Refuse a ledger in which a row other than the last ones is missing: entries count from 0 without gaps. Those
        from number `first` on are counted before this process reads what a `scope`, a run or a data set, was charged;
        later those that it has not counted for this scope."""
        since = self._uncut.get(scope, first)
        if since + store.count(connection, since) != max(since, self._length):
            raise LedgerError(_CUT)
        self._uncut[scope] = self._length
