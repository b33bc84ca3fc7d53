"""The odometer of Lecuyer 2021: filters of doubling size, for whatever has a Rényi curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometer_base import FULL
from discreet.accounting.adaptive.order_odometer import OrderOdometer


@dataclass(frozen=True, slots=True)
class DoublingOdometer(OrderOdometer):
    """Lecuyer 2021, Theorem 2 and equation 5: per order, filters of doubling size.

    With s = log(2 |orders| / delta) / (alpha - 1) and f the smallest with sum <= 2^(f - 1) s, the reading is
    2^(f - 1) s + log(2 |orders| f^2 / delta) / (alpha - 1), at the best order. The f-th filter of an order fails with
    probability at most delta / (2 |orders| f^2), and these add up to less than delta.
    """

    kind: ClassVar[str] = "doubling"

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        return min(map(self._at, self.orders, spent))

    def _at(self, order: float, spent: float) -> float:
        if not spent < FULL:
            return math.inf
        log = math.log(2 * len(self.orders) / self.delta)
        first = log / (order - 1)
        size = 1
        while not spent <= 2.0 ** (size - 1) * first:
            size += 1
        return 2.0 ** (size - 1) * first + (log + 2 * math.log(size)) / (order - 1)
