"""What a data set may spend over all runs, and the filter that keeps to it.

The filter is basic composition: runs with guarantees (epsilon_i, delta_i), each chosen after seeing the runs
before, are together (sum epsilon_i, sum delta_i)-private as long as the sums are kept within a budget that was
fixed beforehand (Rogers, Roth, Ullman, Vadhan 2016, Theorem 3.6 with Lemma 3.3's pure sums; Dwork, Rothblum,
Vadhan 2010). A run is charged whole when it opens; nothing returns if it stops early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that all runs on one data set may spend together."""

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.open_unit("delta", self.delta)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit.value,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Budget:
        """The inverse of `as_dict`."""
        return cls(data["epsilon"], data["delta"], Adjacency(data["adjacency"]), Unit(data["unit"]))


@dataclass(frozen=True, slots=True)
class Spent:
    """The sums over the runs of a data set, rounded up."""

    epsilon: float
    delta: float
    runs: int


def spent_by(charges: Sequence[tuple[float, float]]) -> Spent:
    """Add up (epsilon, delta) of runs."""
    return Spent(_sum_up([e for e, _ in charges]), _sum_up([d for _, d in charges]), len(charges))


def admit_run(budget: Budget, charges: Sequence[tuple[float, float]], run: Guarantee, dataset: str) -> None:
    """Raise `BudgetExhausted` unless `run` fits what `charges` leave of the budget."""
    if (run.adjacency, run.unit) != (budget.adjacency, budget.unit):
        raise InputError(
            f"the budget of data set {dataset!r} is for {budget.adjacency.value}, unit {budget.unit.value}, but the "
            f"plan is for {run.adjacency.value}, unit {run.unit.value}; they do not add up, so use the budget's"
        )
    after = spent_by([*charges, (run.epsilon, run.delta)])
    if not (after.epsilon <= budget.epsilon and after.delta <= budget.delta):
        before = spent_by(charges)
        raise BudgetExhausted(
            f"the run needs epsilon {run.epsilon:.6g} and delta {run.delta:.3g}, but data set {dataset!r} has spent "
            f"{before.epsilon:.6g} and {before.delta:.3g} of {budget.epsilon:.6g} and {budget.delta:.3g} in "
            f"{before.runs} runs; nothing was charged"
        )


def check_alike(budget: Budget, earlier: Sequence[tuple[str, str]], dataset: str) -> None:
    """Refuse a budget for a data set with runs of another (adjacency, unit): their epsilons mean something else."""
    other = next((kind for kind in earlier if kind != (budget.adjacency.value, budget.unit.value)), None)
    if other is not None:
        raise InputError(
            f"data set {dataset!r} was charged for runs under {other[0]}, unit {other[1]}, which do not add up with a "
            f"budget for {budget.adjacency.value}, unit {budget.unit.value}; use a budget of the same kind"
        )


def _sum_up(values: Sequence[float]) -> float:
    """A sum rounded up, exact where it is exact, infinite where it is not finite."""
    try:
        total = math.fsum(values)
        exact = len(values) < 2 or math.fsum([*values, -total]) <= 0
    except (OverflowError, ValueError):
        return math.inf
    return total if exact else math.nextafter(total, math.inf)
