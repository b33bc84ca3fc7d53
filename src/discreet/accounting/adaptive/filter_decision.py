"""The decisions of filters: pure functions of (budget, spent, cost).

`spent` is a tuple of floats, one per limit, which JSON holds exactly. It starts at 0 and depends on the admitted events
alone (see `costs`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from discreet.accounting.adaptive import costs
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filters import Filter, quanta
from discreet.core.errors import InputError
from discreet.core.events import Event


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a proposal was admitted, and the sum spent after it (unchanged if it was refused)."""

    admitted: bool
    spent: Amounts


def start(budget: Filter) -> Amounts:
    """The sum spent before the first release: zeros."""
    return (0.0,) * len(budget.limits)


def decide(budget: Filter, spent: Sequence[float], cost: Sequence[float]) -> Decision:
    """Decide on a proposal: it is admitted if the sum of `spent` and its cost, rounded up, is within the budget.

    | cost                             | answer                                   |
    |----------------------------------|------------------------------------------|
    | 0                                | admitted                                 |
    | precisely what is left           | admitted                                 |
    | infinite (nothing proved)        | refused                                  |
    | NaN, negative, wrong length      | `InputError`                             |
    """
    units, limits = quanta(budget), budget.limits
    counted = map(costs.round_up, costs.checked(cost, len(limits)), units)
    before = costs.checked(spent, len(limits))
    if not all(map(operator.le, before, limits)):
        raise InputError(f"what was spent, {list(before)}, is over the budget {list(limits)}; check the filter")
    after = tuple(map(operator.add, before, counted))  # sums of whole quanta are exact
    return Decision(True, after) if all(map(operator.le, after, limits)) else Decision(False, before)


def propose(budget: Filter, spent: Sequence[float], event: Event) -> Decision:
    """`decide` on an event, at the cost that the filter gives it."""
    return decide(budget, spent, budget.cost(event))
