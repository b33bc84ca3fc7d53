"""The source of a session's charges: a ledger, or a search that was charged as a whole before."""

from __future__ import annotations

from typing import Protocol

from discreet.accounting.adaptive.costs import Amounts
from discreet.core.errors import LedgerError
from discreet.core.events import Compose, Event, steps_of
from discreet.core.release import Receipt
from discreet.ledger import NextEvents


class Charges(Protocol):
    """The interface of a ledger to a session."""

    @property
    def where(self) -> str: ...
    def charged_steps(self, run: str) -> int: ...
    def reserve(self, run: str, attempt: int, next_events: NextEvents) -> tuple[Receipt, ...]: ...
    def commit(self, receipt: Receipt) -> None: ...
    def spent(self, run: str) -> Event: ...
    def amounts(self, run: str) -> Amounts: ...


class SealedBooks:
    """The charges of one trial of a search. The search is in the ledger already, so nothing is written here.

    Receipts are for the trial alone: which steps of its plan were granted, in order.
    """

    where = ""

    def __init__(self) -> None:
        self._granted: list[Event] = []
        self._steps = 0

    def charged_steps(self, run: str) -> int:
        """The number of steps of the trial that were granted."""
        return self._steps

    def reserve(self, run: str, attempt: int, next_events: NextEvents) -> tuple[Receipt, ...]:
        """The next block of the trial."""
        block = tuple(next_events(self._steps))
        if not block:
            raise LedgerError("the admission granted no step and refused none")
        places = [(drawn, index) for drawn in block for index in range(len(steps_of(drawn)))]
        receipts = tuple(Receipt(run, attempt, self._steps + i, *place) for i, place in enumerate(places))
        self._granted += block
        self._steps += len(places)
        return receipts

    def commit(self, receipt: Receipt) -> None:
        """Nothing: a note of every step would tell how many trials there were."""

    def spent(self, run: str) -> Event:
        """Everything granted to the trial."""
        return Compose(tuple(self._granted))

    def amounts(self, run: str) -> Amounts:
        """A trial has no filter of its own."""
        return ()
