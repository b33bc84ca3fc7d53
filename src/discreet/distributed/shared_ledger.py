"""The ledger of a run of several processes: the first keeps it, the others are told."""

from __future__ import annotations

from discreet.accounting.adaptive.costs import Amounts
from discreet.core.events import Event
from discreet.core.events.event_json import from_json, to_json
from discreet.core.release import Receipt
from discreet.distributed.ranks import Ranks
from discreet.ledger import Ledger, NextEvents


class SharedLedger:
    """The `ledger` of the first process, which the others do not have, as a session sees it.

    A charge is durable before any process gets its receipt, since receipts are sent after `reserve` returned.
    """

    def __init__(self, ranks: Ranks, ledger: Ledger | None, where: str) -> None:
        self._ranks, self._ledger, self.where = ranks, ledger, where

    def charged_steps(self, run: str) -> int:
        """The number of steps of the run that are charged."""
        return int(self._ranks.from_first("the ledger", lambda: self._own.charged_steps(run)))

    def reserve(self, run: str, attempt: int, next_events: NextEvents) -> tuple[Receipt, ...]:
        """Charge the next block; the first process alone asks `next_events`."""

        def charge() -> list[object]:
            receipts = self._own.reserve(run, attempt, next_events)
            return [[one.position, to_json(one.event), one.index] for one in receipts]

        told = self._ranks.from_first("a charge", charge)
        return tuple(Receipt(run, attempt, position, from_json(event), index) for position, event, index in told)

    def commit(self, receipt: Receipt) -> None:
        """Note that a charged step was taken."""
        if self._ledger is not None:
            self._ledger.commit(receipt)

    def spent(self, run: str) -> Event:
        """Everything charged to the run."""
        return from_json(self._ranks.from_first("the ledger", lambda: to_json(self._own.spent(run))))

    def amounts(self, run: str) -> Amounts:
        """The count of the run's filter."""
        return tuple(self._ranks.from_first("the ledger", lambda: list(self._own.amounts(run))))

    @property
    def _own(self) -> Ledger:
        assert self._ledger is not None  # the first process has it
        return self._ledger
