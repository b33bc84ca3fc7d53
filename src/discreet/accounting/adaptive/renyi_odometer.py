"""The odometer that mixes Rényi orders: below that of Lecuyer 2021 at the same orders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometer_base import FULL, OUTWARD
from discreet.accounting.adaptive.order_odometer import OrderOdometer


@dataclass(frozen=True, slots=True)
class RenyiOdometer(OrderOdometer):
    """The mixture of all orders with equal weights: sum over alpha of exp((alpha - 1) (L - sum c)) / |orders|.

    The mixture reaches 1/delta before any single term does, so the reading is below the least of
    sum c + log(|orders| / delta) / (alpha - 1), which is below equation 5. With one order the reading is a line.
    """

    kind: ClassVar[str] = "renyi"

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        known = [(order, amount) for order, amount in zip(self.orders, spent, strict=True) if amount < FULL]
        if not known:
            return math.inf
        goal = math.log(len(self.orders) / self.delta) * OUTWARD
        loss = min(amount + goal / (order - 1) for order, amount in known)
        for _ in range(60):  # Newton from above: the logarithm of the sum is convex, so every iterate bounds the root
            terms = [(order - 1) * (loss - amount) for order, amount in known]
            top = max(terms)
            weights = [math.exp(term - top) for term in terms]
            total = math.fsum(weights)
            slope = math.fsum(w * (order - 1) for w, (order, _) in zip(weights, known, strict=True)) / total
            step = (top + math.log(total) - goal) / slope
            if not step > 1e-13 * loss:
                break
            loss -= step
        return loss
