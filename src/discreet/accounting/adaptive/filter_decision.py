"""Putting a proposal to a filter: pure functions of (budget, spent, cost).

What is spent is a tuple of floats, one per limit, which JSON holds exactly. It starts at 0 and depends only on what was
admitted alone (see `costs`).
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
    """Whether a proposal was admitted, and what is spent thereafter (as before if it was not)."""

    admitted: bool
    spent: Amounts


def start(budget: Filter) -> Amounts:
    """What is spent before the first release."""
    return (0.0,) * len(budget.limits)


def decide(budget: Filter, spent: Sequence[float], cost: Sequence[float]) -> Decision:
    """Put a proposal to the filter: admit it if what is spent and its cost, rounded up, are within the budget.

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
    """`decide` for an event."""
    return _decision(budget, _spent(budget, spent), budget.cost(event))


def give_back(budget: Filter, spent: Sequence[float], unused: Sequence[float]) -> Amounts:
    """What is spent once a reserved cost, as `budget.cost` gave it, turns out never to have been released.

    In Rényi DP, zCDP and mu^2 the proof adds up what was released, so the rest returns, exactly. In (epsilon, delta)
    a part's pair was paid for the choice as well, and nothing returns.
    """
    before, back = _spent(budget, spent), costs.checked(unused, len(budget.limits))
    if not budget.returns_unspent:
        return before
    rounded = tuple(map(costs.round_up, back, quanta(budget)))
    if not all(amount <= total for amount, total in zip(rounded, before, strict=True)):
        raise InputError(f"more is given back than was spent: {list(rounded)} of {list(before)}")
    return tuple(total - amount for amount, total in zip(rounded, before, strict=True))


def _decision(budget: Filter, before: Amounts, counted: Amounts) -> Decision:
    add = costs.add_up if isinstance(budget, BasicFilter) else operator.add  # sums of whole quanta are exact
    after = tuple(map(add, before, counted))
    return Decision(True, after) if all(map(operator.le, after, budget.limits)) else Decision(False, before)


def _spent(budget: Filter, spent: Sequence[float]) -> Amounts:
    checked = costs.checked(spent, len(budget.limits))
    if not all(map(operator.le, checked, budget.limits)):
        raise InputError(f"what was spent, {list(checked)}, is over the budget {list(budget.limits)}; check the filter")
    return checked
