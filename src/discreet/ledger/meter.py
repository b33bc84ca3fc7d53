"""What reservations have cost in the currency of a filter, read from the ledger row by row.

Rows are never changed, so each is read and priced once per process. The sums do not depend on how steps were grouped
into rows (see `accounting.adaptive.costs`): every process, and a verifier with the list of events, finds the same bits.
"""

from __future__ import annotations

import json
import operator
from functools import lru_cache

from sqlalchemy import Connection

from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filter_decision import propose, start
from discreet.accounting.adaptive.filters import BasicFilter, Filter
from discreet.core.errors import BudgetExhausted, LedgerError, NotProved
from discreet.core.events import Event
from discreet.core.events.event_json import from_json
from discreet.core.rounding import places_up
from discreet.ledger import store
from discreet.ledger.chain import check_seal


class Meter:
    """The amounts that runs have spent of their own filters, brought up to date inside the caller's transaction."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Filter], tuple[int, Amounts]] = {}

    def spent(self, connection: Connection, run: str, budget: Filter) -> Amounts:
        """The amounts that a run has spent; `LedgerError` if they are over the limit."""
        last, spent = self._known.get((run, budget), (-1, start(budget)))
        for entry in store.reservations(connection, run, after=last):
            check_seal(entry)
            spent = tuple(map(operator.add, spent, cost_of(budget, entry.body)))
            if not within(budget, spent):
                raise LedgerError(
                    f"entry {entry.number} charged run {run[:8]} for more than its filter allows; it was edited"
                )
            last = entry.number
        self._known[run, budget] = last, spent
        return spent

    def clear(self) -> None:
        """Start from the ledger again: it is another than that which was read."""
        self._known.clear()


def admit(budget: Filter, spent: Amounts, event: Event, steps: int, whose: str) -> None:
    """Raise `BudgetExhausted` unless the event fits what is left."""
    if not propose(budget, spent, event).admitted:
        raise BudgetExhausted(
            f"the next {steps} steps do not fit the {budget.kind} budget of {whose}, of which "
            f"{places_up(100 * share(budget, spent))} % is spent; nothing was charged"
        )


def check_priced(budget: Filter, event: Event | None, dataset: str) -> None:
    """Raise `NotProved` if the budget charges steps, and nothing is proved in its currency of a part of `event`."""
    if event is None or isinstance(budget, BasicFilter):
        return
    try:
        budget.cost(event)
    except NotProved as error:
        raise NotProved(
            f"the {budget.kind} budget of data set {dataset!r} has no price for this run: {error}; nothing was charged"
        ) from None


@lru_cache(maxsize=1024)
def cost_of(budget: Filter, body: str) -> Amounts:
    """The cost of a reservation, by its text: those of a run are much alike. Sums of costs are exact."""
    return budget.cost(from_json(json.loads(body)))


def within(budget: Filter, spent: Amounts) -> bool:
    """Whether the amounts are within all limits of the filter."""
    return all(map(operator.le, spent, budget.limits))


def share(budget: Filter, spent: Amounts) -> float:
    """The largest fraction used of any limit of the filter."""
    return max(amount / limit for amount, limit in zip(spent, budget.limits, strict=True))
