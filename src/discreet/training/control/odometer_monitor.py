"""The odometer of a running run: the events it has counted, and whether the next block would exceed its limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discreet.accounting.adaptive.costs import Amounts
from discreet.core.errors import BudgetExhausted
from discreet.core.events import Event, in_order
from discreet.core.guarantee import ExPost
from discreet.core.rounding import rounded_up
from discreet.plan.adaptive.odometer_rule import Reading


class OdometerMonitor:
    """Counts charged events. It depends on them alone, so a resumed run gets the same figures from the ledger."""

    def __init__(self, rule: Reading, charged: Event) -> None:
        self._rule = rule
        self.count_anew(charged)

    def count_anew(self, charged: Event) -> None:
        """Count what the ledger says was charged in all, instead of what was counted before."""
        self._spent = self._rule.after(self._rule.start(), charged)

    @property
    def reading(self) -> ExPost:
        """The ex-post reading for everything charged so far."""
        return self._rule.read(self._spent)

    def charge(self, events: Iterable[Event]) -> None:
        """Count events that are charged now."""
        self._spent = self._after(events)

    def fitting(self, block: Sequence[Event]) -> tuple[Event, ...]:
        """The longest prefix of the block that keeps the reading within the limit; `BudgetExhausted` if it is empty.

        Readings never fall, so if the whole block is within the limit, every prefix is.
        """
        most = self._rule.most
        if most is None or self._rule.read(self._after(block)).epsilon <= most:
            return tuple(block)
        fits, spent, reading = 0, self._spent, self.reading
        for event in block:
            spent = self._rule.after(spent, event)
            reading = self._rule.read(spent)
            if not reading.epsilon <= most:
                break
            fits += 1
        if block and not fits:
            raise BudgetExhausted(
                f"the odometer reads {rounded_up(self.reading.epsilon)} and would read "
                f"{rounded_up(reading.epsilon)} after another step, more than {most:g}; nothing was charged"
            )
        return tuple(block[:fits])

    def _after(self, events: Iterable[Event]) -> Amounts:
        """The spent amount after these events. Equal neighbours are priced once; sums of quanta are exact."""
        return self._rule.after(self._spent, in_order(events))
