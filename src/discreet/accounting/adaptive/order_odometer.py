"""The common part of the two odometers of Rényi orders: their fields, and the cost of an event."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.accounting.adaptive import costs
from discreet.accounting.adaptive.codec import check_common
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometer_base import QUANTUM
from discreet.accounting.theories.paper_figures import LECUYER_ORDERS
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.events import Event


@dataclass(frozen=True, slots=True)
class OrderOdometer:
    """An odometer that sums the cost at each of its Rényi orders."""

    delta: float
    orders: Amounts = LECUYER_ORDERS
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", costs.check_orders(self.orders))
        check_common(self)

    def cost(self, event: Event) -> Amounts:
        """D_alpha of an event at each order."""
        return costs.rdp(event, self.adjacency, self.orders, (QUANTUM,) * len(self.orders))
