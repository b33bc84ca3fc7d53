"""What reservations have cost in the currency of a filter, read from the ledger row by row.

Rows are never changed, so each is read and priced once per process. The sums do not depend on how steps were grouped
into rows (see `accounting.adaptive.costs`): every process, and a verifier with the list of events, finds the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filter_decision import propose, start
from discreet.accounting.adaptive.filters import Filter
from discreet.core.errors import BudgetExhausted, LedgerError
from discreet.core.events import Event
from discreet.core.events.event_json import from_json
from discreet.ledger import store
from discreet.ledger.chain import check_seal


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose reservations count: those of one run, or of all runs on a data set."""

    run: str = ""
    dataset: str = ""

    def __str__(self) -> str:
        return f"run {self.run[:8]}" if self.run else f"data set {self.dataset!r}"


class Meter:
    """Sums per scope and filter, brought up to date inside the caller's transaction."""

    def __init__(self) -> None:
        self._known: dict[tuple[Scope, Filter], tuple[int, Amounts]] = {}

    def spent(self, connection: Connection, scope: Scope, budget: Filter) -> Amounts:
        """What the scope has spent; `LedgerError`, or `BudgetExhausted` for a name of several forms, if over limit."""
        last, spent = self._known.get((scope, budget), (-1, start(budget)))
        for entry in store.reservations(connection, after=last, run=scope.run, dataset=scope.dataset):
            check_seal(entry)
            decision = propose(budget, spent, from_json(entry.content))
            if not decision.admitted and scope.dataset and _has_forms(connection, scope.dataset):
                raise BudgetExhausted(
                    f"the runs on {scope} have spent more than its {budget.kind} budget: they go by several forms of "
                    "its name, which were taken for several data sets; nothing was charged"
                )
            if not decision.admitted:
                raise LedgerError(
                    f"entry {entry.number} charged {scope} for more than its filter allows; it was edited"
                )
            last, spent = entry.number, decision.spent
        self._known[scope, budget] = last, spent
        return spent

    def admit(self, connection: Connection, scope: Scope, budget: Filter, event: Event, steps: int) -> None:
        """Raise `BudgetExhausted` unless the event fits what is left."""
        spent = self.spent(connection, scope, budget)
        if not propose(budget, spent, event).admitted:
            raise BudgetExhausted(
                f"the next {steps} steps do not fit the {budget.kind} budget of {scope}, of which "
                f"{share(budget, spent):.4%} is spent; nothing was charged"
            )


def _has_forms(connection: Connection, dataset: str) -> bool:
    return len({entry.dataset for kind in ("budget", "run") for entry in store.named(connection, kind, dataset)}) > 1


def share(budget: Filter, spent: Amounts) -> float:
    """The largest fraction used of any limit of the filter."""
    return max(amount / limit for amount, limit in zip(spent, budget.limits, strict=True))
