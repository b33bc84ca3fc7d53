"""The odometer of a run while it goes: what it has counted, and whether the next block would make it read too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discreet.accounting.adaptive.costs import Amounts
from discreet.core.errors import BudgetExhausted
from discreet.core.events import Event, in_order
from discreet.core.guarantee import ExPost
from discreet.plan.odometer_rule import Reading


class OdometerMonitor:
    """Counts what is charged. It depends on that alone, so a resumed run finds the same figures in the ledger."""

    def __init__(self, rule: Reading, charged: Event) -> None:
        self._rule = rule
        self._spent = rule.after(rule.start(), charged)

    @property
    def reading(self) -> ExPost:
        """What can be said of the privacy loss of what is charged so far."""
        return self._rule.read(self._spent)

    def charge(self, events: Iterable[Event]) -> None:
        """Count events that are charged now."""
        self._spent = self._after(events)

    def fitting(self, block: Sequence[Event]) -> tuple[Event, ...]:
        """As much of the block as keeps the reading within the rule; `BudgetExhausted` if that is nothing.

        Readings never fall, so that of the whole block is enough where it is within the rule.
        """
        most = self._rule.most
        if most is None or self._rule.read(self._after(block)).epsilon <= most:
            return tuple(block)
        fits, spent = 0, self._spent
        for event in block:
            spent = self._rule.after(spent, event)
            if not self._rule.read(spent).epsilon <= most:
                break
            fits += 1
        if block and not fits:
            raise BudgetExhausted(
                f"the odometer reads {self.reading.epsilon:.4f} and would read more than {most:g} after another step; "
                "nothing was charged"
            )
        return tuple(block[:fits])

    def _after(self, events: Iterable[Event]) -> Amounts:
        """What is spent after these, too; equal neighbours are priced once, and sums of quanta do not round."""
        return self._rule.after(self._spent, in_order(events))
