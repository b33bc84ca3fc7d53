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
from discreet.accounting.adaptive.filters import BasicFilter, Filter, quanta
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
    units = quanta(budget)
    counted = tuple(map(costs.round_up, costs.checked(cost, len(units)), units))
    return _decision(budget, _spent(budget, spent), counted)


def propose(budget: Filter, spent: Sequence[float], event: Event) -> Decision:
    """`decide` on an event, at the cost that the filter gives it."""
    return _decision(budget, _spent(budget, spent), budget.cost(event))


def _decision(budget: Filter, before: Amounts, counted: Amounts) -> Decision:
    add = costs.add_up if isinstance(budget, BasicFilter) else operator.add  # sums of whole quanta are exact
    after = tuple(map(add, before, counted))
    return Decision(True, after) if all(map(operator.le, after, budget.limits)) else Decision(False, before)


def _spent(budget: Filter, spent: Sequence[float]) -> Amounts:
    checked = costs.checked(spent, len(budget.limits))
    if not all(map(operator.le, checked, budget.limits)):
        raise InputError(f"what was spent, {list(checked)}, is over the budget {list(budget.limits)}; check the filter")
    return checked
