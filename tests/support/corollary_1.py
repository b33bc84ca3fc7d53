"""The filter of Lecuyer 2021, Corollary 1, as printed: it admits while some order has room, which is not sound."""

import math
from collections.abc import Mapping, Sequence

from discreet.accounting.theories.paper_figures import LECUYER_ORDERS
from discreet.core import checks


def filter_curve(epsilon: float, delta: float, orders: Sequence[float] = LECUYER_ORDERS) -> dict[float, float]:
    """The budget per order of the filter of Lecuyer 2021, Corollary 1: epsilon - log(1/delta) / (alpha - 1).

    As printed, a release is admitted while **some** order has room (`filter_admits`). That is not proved, and is false
    with the improved conversion, since the order that keeps room may depend on the outputs. Sound filters fix one
    order, or require room at all orders.
    """
    log = -math.log(checks.open_unit("delta", delta))
    return {order: checks.positive("epsilon", epsilon) - log / (order - 1) for order in orders}


def filter_admits(spent: Mapping[float, float], proposal: Mapping[float, float], budget: Mapping[float, float]) -> bool:
    """Corollary 1 as printed: whether `spent` plus `proposal` fits `budget` at some order."""
    return any(spent[order] + proposal[order] <= room for order, room in budget.items())
