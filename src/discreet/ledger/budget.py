"""The budget of a data set over all its runs, and how its filter admits a run or the next block of a run.

The filter is fixed for a data set before its first run (a basic filter may later be replaced by another basic one):

| filter                          | a run is charged                          | steps that it never reserves |
|---------------------------------|-------------------------------------------|------------------------------|
| basic (`Budget`)                | whole, with its guarantee, when it opens  | stay charged                 |
| rdp-order, rdp-curve, zcdp, gdp | block by block, as its steps are reserved | cost nothing                 |

`accounting.adaptive.filters` says why each filter is sound. A run may have a filter of its own, fixed when it opens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filters import BasicFilter, Filter
from discreet.core.adjacency import Unit
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.guarantee import Guarantee
from discreet.core.rounding import delta_up, rounded_down, rounded_up


@dataclass(frozen=True, slots=True)
class Spent:
    """The sums over the runs of a data set, rounded up.

    `epsilon` and `delta` are the sums of the guarantees that the runs were opened with. `amounts` is what a filter over
    steps has counted, in its own currency; `share` is the largest fraction used of any of its limits.
    """

    epsilon: float
    delta: float
    runs: int
    amounts: Amounts = ()
    share: float | None = None


def in_words(budget: Filter | None, spent: Spent) -> str:
    """The spent part of the budget, in words and rounded up."""
    of = "no budget set" if budget is None else f"of {limit_in_words(budget)}"
    if budget is not None and spent.share is not None:
        return f"{rounded_up(100 * spent.share)} % spent in {_runs(spent.runs)}, {of} by filter {budget.kind}"
    sums = f"epsilon {rounded_up(spent.epsilon, 6)}, delta {delta_up(spent.delta)}"
    return f"spent {sums} in {_runs(spent.runs)}, {of}"


def limit_in_words(budget: Filter) -> str:
    """The whole of a budget, in words and rounded up."""
    whole = budget.guarantee()
    users = " for users, all rows of each together" if budget.unit is Unit.USER else ""
    return f"epsilon {rounded_up(whole.epsilon, 6)}, delta {delta_up(whole.delta)}{users}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def over_steps(budget: Filter | None) -> bool:
    """Whether the budget charges steps rather than whole runs."""
    return budget is not None and not isinstance(budget, BasicFilter)


def decoded(content: dict[str, Any]) -> Filter:
    """The filter in a budget entry; an entry that names no filter, from an early ledger, means the basic one."""
    return filters.from_dict({"filter": BasicFilter.kind, **content})


@dataclass(frozen=True, slots=True)
class Charged:
    """The guarantees of several runs, added up: how many runs, the exact sums of epsilon and of delta (None: infinite),
    and the (adjacency, unit) under which they are stated."""

    runs: int = 0
    epsilon: Fraction | None = Fraction()
    delta: Fraction | None = Fraction()
    kinds: frozenset[tuple[str, str]] = frozenset()

    def plus(self, run: Mapping[str, Any]) -> Charged:
        """With one more run: the content of the entry that opened it."""
        kind = run["adjacency"], run["unit"]
        kinds = self.kinds if kind in self.kinds else self.kinds | {kind}
        return Charged(self.runs + 1, _sum(self.epsilon, run["epsilon"]), _sum(self.delta, run["delta"]), kinds)

    @property
    def spent(self) -> Spent:
        """The sums, rounded up."""
        return Spent(_rounded_up(self.epsilon), _rounded_up(self.delta), self.runs)


def opening(guarantee: Guarantee) -> dict[str, Any]:
    """The fields of a guarantee in the entry that opens a run."""
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency.value,
        "unit": guarantee.unit.value,
    }


def admit_run(budget: Filter, earlier: Charged, run: Guarantee, dataset: str) -> None:
    """Raise `BudgetExhausted` unless `run` fits what is left; `InputError` for another adjacency or unit."""
    if (run.adjacency, run.unit) != (budget.adjacency, budget.unit):
        kind = f"{run.adjacency.value}, unit {run.unit.value}"
        how = (
            "so plan for what the budget is for"
            if earlier.runs
            else f"so set a budget for it: discreet ledger budget, with --adjacency {run.adjacency.value} --unit "
            f"{run.unit.value}"
        )
        raise InputError(
            f"the budget of data set {dataset!r} is for {budget.adjacency.value}, unit {budget.unit.value}, but the "
            f"plan is for {kind}; they do not add up, {how}"
        )
    if not isinstance(budget, BasicFilter):
        return
    after = earlier.plus(opening(run)).spent
    if not (after.epsilon <= budget.epsilon and after.delta <= budget.delta):
        before = earlier.spent
        raise BudgetExhausted(
            f"the run needs epsilon {rounded_up(run.epsilon, 6)} and delta {delta_up(run.delta)}, but data set "
            f"{dataset!r} has spent {rounded_up(before.epsilon, 6)} and {delta_up(before.delta)} of "
            f"{budget.epsilon:.6g} and {budget.delta:.3g} in {_runs(before.runs)}; nothing was charged; "
            f"epsilon {_left(budget.epsilon, before.epsilon)} and delta {_left(budget.delta, before.delta)} are left"
        )


def _left(most: float, spent: float) -> str:
    return rounded_down(max(0.0, most - spent))


def check_fixed(old: Filter | None, new: Filter, runs: int, dataset: str) -> None:
    """Refuse to set or change a filter over steps once there are runs: it must be fixed before the first release."""
    if runs and old != new and (over_steps(old) or over_steps(new)):
        raise InputError(
            f"data set {dataset!r} has {_runs(runs)}, and a filter over steps must be fixed before the first; "
            "keep its budget, or set this one for a new data set"
        )


def check_run_filter(own: Filter | None, run: Guarantee) -> None:
    """Refuse a run's own filter if it is basic, or if its adjacency or unit differs from the run's."""
    if own is None:
        return
    if not over_steps(own):
        raise InputError("the basic filter is for whole runs; give a run an rdp-order, rdp-curve, zcdp or gdp filter")
    if (own.adjacency, own.unit) != (run.adjacency, run.unit):
        raise InputError(
            f"the filter of the run is for {own.adjacency.value}, unit {own.unit.value}, but the plan is for "
            f"{run.adjacency.value}, unit {run.unit.value}; use the same"
        )


def check_alike(budget: Filter, earlier: Iterable[tuple[str, str]], dataset: str) -> None:
    """Refuse a budget for a data set with runs of another (adjacency, unit): their epsilons do not add up."""
    other = next((kind for kind in sorted(earlier) if kind != (budget.adjacency.value, budget.unit.value)), None)
    if other is not None:
        raise InputError(
            f"data set {dataset!r} was charged for runs under {other[0]}, unit {other[1]}, which do not add up with a "
            f"budget for {budget.adjacency.value}, unit {budget.unit.value}; use a budget of the same kind"
        )


def _sum(sofar: Fraction | None, amount: float) -> Fraction | None:
    return sofar + Fraction(amount) if sofar is not None and amount < math.inf else None


def _rounded_up(exact: Fraction | None) -> float:
    """The least float that is not below; infinite for None."""
    try:
        nearest = math.inf if exact is None else float(exact)
    except OverflowError:
        return math.inf
    return nearest if exact is None or nearest >= exact else math.nextafter(nearest, math.inf)
