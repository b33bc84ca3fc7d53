"""Running totals of data sets, kept in the ledger itself, so that no process adds up from its beginning.

An entry of kind `total` says what the entries before it charged to one data set. It is sealed as all others are, and it
charges nothing. A process that charges writes one after `EVERY` entries that it has added up. A process starts from the
last total; from there on it reads each entry once. `recount` adds up from the beginning and compares.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.costs import Amounts, checked
from discreet.accounting.adaptive.filter_decision import start
from discreet.accounting.adaptive.filters import Filter
from discreet.core.errors import BudgetExhausted, DiscreetError, LedgerError
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee
from discreet.ledger import store
from discreet.ledger.budget import Charged, admit_run, check_alike, decoded, over_steps
from discreet.ledger.chain import Entry, check_seal
from discreet.ledger.meter import check_priced, cost_of, within
from discreet.ledger.names import compared

_RESTORE = "restore the ledger from a copy that `discreet ledger verify` accepts"

_DIGITS = 1e-9
"""Totals may differ by this share of a limit: prices of another processor differ in their last digits."""

EVERY = 64
"""After so many entries that were added up, a charge writes their total."""


@dataclass(frozen=True, slots=True)
class Total:
    """The total of a data set over the entries before number `end`: the guarantees of its runs, and the amounts that
    its filters over steps have counted. `added`: how many entries were added up since the last total in the ledger;
    `over`: the entry that charged more than a filter allows."""

    end: int
    charged: Charged
    amounts: Mapping[Filter, Amounts]
    added: int = 0
    over: Entry | None = None

    @property
    def content(self) -> dict[str, Any]:
        """The body of the entry."""
        charged = self.charged
        return {
            "runs": charged.runs,
            "epsilon": None if charged.epsilon is None else str(charged.epsilon),
            "delta": None if charged.delta is None else str(charged.delta),
            "kinds": sorted(map(list, charged.kinds)),
            "filters": [[filters.as_dict(one), list(spent)] for one, spent in self.amounts.items()],
        }

    @classmethod
    def of(cls, entry: Entry) -> Total:
        """The total that an entry states; `LedgerError` if it states none."""
        try:
            content = entry.content
            kinds = frozenset((adjacency, unit) for adjacency, unit in content["kinds"])
            epsilon, delta = (_fraction(content[name]) for name in ("epsilon", "delta"))
            given = [(filters.from_dict(one), spent) for one, spent in content["filters"]]
            amounts = {budget: checked(spent, len(budget.limits)) for budget, spent in given}
            return cls(entry.number, Charged(content["runs"], epsilon, delta, kinds), amounts)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            raise LedgerError(f"entry {entry.number} of the ledger states no total; {_RESTORE}") from None


class Totals:
    """The totals of data sets, as far as this process has read the ledger; brought up to date in a transaction."""

    def __init__(self) -> None:
        self._known: dict[str, Total] = {}

    def of(self, connection: Connection, dataset: str, budgets: Iterable[Filter], end: int) -> Total:
        """The total of a data set under its `budgets`, over the entries before number `end`: all there are."""
        counting = [budget for budget in budgets if over_steps(budget)]
        total = self._known.get(dataset)
        if total is None or not all(budget in total.amounts for budget in counting):
            total = _last(connection, dataset, counting)
        total = _only(total, counting)
        charges = store.charges_on(connection, dataset, total.end, end) if total.amounts else None
        for entry in charges or store.runs_on(connection, dataset, total.end):
            check_seal(entry)
            total = _plus(total, entry)
        total = self._known[dataset] = replace(total, end=end)
        return total

    def admit(
        self,
        connection: Connection,
        dataset: str,
        budgets: Collection[Filter],
        end: int,
        run: Guarantee,
        event: Event | None = None,
    ) -> None:
        """Raise `BudgetExhausted`, `NotProved` or `InputError` unless a run fits all `budgets` of its data set."""
        earlier = self.of(connection, dataset, budgets, end).charged
        for budget in budgets:
            check_alike(budget, earlier.kinds, dataset)
            admit_run(budget, earlier, run, dataset)
            check_priced(budget, event, dataset)

    def within(self, connection: Connection, dataset: str, budgets: Iterable[Filter], end: int) -> Total:
        """The same; `LedgerError`, or `BudgetExhausted` for a name of several forms, if more was charged than a filter
        allows."""
        total = self.of(connection, dataset, budgets, end)
        if total.over is None:
            return total
        if len({form for kind in ("budget", "run") for form in store.forms(connection, kind, dataset)}) > 1:
            raise BudgetExhausted(
                f"the runs on data set {dataset!r} have spent more than its budget: they go by several forms of its "
                "name, which were taken for several data sets; nothing was charged"
            )
        raise LedgerError(
            f"entry {total.over.number} charged data set {dataset!r} for more than its filter allows; it was edited"
        )

    def clear(self) -> None:
        """Start from the ledger again: it is another than that which was read."""
        self._known.clear()

    def due(self, dataset: str) -> dict[str, Any] | None:
        """The content of an entry for the total that `of` has just found, if enough was added up since the last. It is
        written in the transaction of a charge, before the charge."""
        total = self._known[dataset]
        if total.added < EVERY or total.over is not None:
            return None
        self._known[dataset] = replace(total, added=0)
        return total.content


def recount(walked: Iterable[Entry]) -> Iterator[Entry]:
    """The entries of a whole ledger, oldest first; `LedgerError` at a total that is not the sum of what was before."""
    whose: dict[str, str] = {}
    found: dict[str, Total] = {}
    in_force: dict[str, dict[str, Filter]] = {}
    for entry in walked:
        yield entry  # whoever walks checks its seal before it is read
        name = compared(entry.dataset) if entry.dataset else whose.get(entry.run, "")
        total = found.get(name, _NOTHING)
        if entry.kind == "run":
            whose[entry.run] = name
        if entry.kind in ("run", "reservation") and name:
            found[name] = _priced(total, entry)
        elif entry.kind == "budget":
            in_force.setdefault(name, {})[entry.dataset] = decoded(entry.content)
            counting = [one for one in in_force[name].values() if over_steps(one)]
            before = total.amounts if total.charged.runs else {one: start(one) for one in counting}
            found[name] = _only(replace(total, amounts=before), counting)
        elif entry.kind == "total" and not _same(Total.of(entry), total):
            raise LedgerError(
                f"entry {entry.number} of the ledger states another total of data set {entry.dataset!r} than the "
                f"entries before it add up to; {_RESTORE}"
            )


def _only(total: Total, counting: Iterable[Filter]) -> Total:
    """With the amounts of these filters alone: those of a budget that was replaced count no more."""
    amounts = {one: total.amounts[one] for one in counting if one in total.amounts}
    over = None if all(within(*one) for one in amounts.items()) else total.over
    return total if amounts == total.amounts else replace(total, amounts=amounts, over=over)


def _priced(total: Total, entry: Entry) -> Total:
    """With one more entry; without a filter that has no price for it, which then cannot have admitted it."""
    try:
        return _plus(total, entry)
    except DiscreetError:
        return _plus(replace(total, amounts={}), entry)


def _plus(total: Total, entry: Entry) -> Total:
    """With one more entry: that of a run or of a reservation."""
    if entry.kind == "run":
        return replace(total, charged=total.charged.plus(entry.content), added=total.added + 1)
    amounts = {
        budget: tuple(map(operator.add, spent, cost_of(budget, entry.body))) for budget, spent in total.amounts.items()
    }
    over = total.over or (None if all(within(*one) for one in amounts.items()) else entry)
    return Total(total.end, total.charged, amounts, total.added + 1, over)


def _same(stated: Total, found: Total) -> bool:
    """Whether a total is as it is stated. A budget that an early version set after the first run is not compared."""
    alike = all(
        abs(one - other) <= _DIGITS * limit
        for budget, spent in stated.amounts.items()
        for one, other, limit in zip(found.amounts.get(budget, spent), spent, budget.limits, strict=True)
    )
    return alike and stated.charged == found.charged


def _last(connection: Connection, dataset: str, counting: list[Filter]) -> Total:
    """The last total in the ledger that has all these budgets, or the beginning."""
    entry = store.newest(connection, "total", dataset)
    if entry is not None:
        check_seal(entry)
        total = Total.of(entry)
        if all(budget in total.amounts for budget in counting):
            return total
    return replace(_NOTHING, amounts={budget: start(budget) for budget in counting})


def _fraction(stated: str | None) -> Fraction | None:
    """The inverse of `str`, for whole numbers and quotients alone: other texts may stand for numbers without end."""
    if stated is None:
        return None
    numerator, _, denominator = stated.partition("/")
    return Fraction(int(numerator), int(denominator or 1))


_NOTHING = Total(0, Charged(), {})
