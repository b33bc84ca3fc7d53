"""A search for settings over disjoint parts of the data: one part for each candidate, and one to choose by.

    unit -> part, by its own identifier -> candidate k is trained on part k -> all are scored on the last part
         -> one of them, by the exponential mechanism -> its model is released, and nothing else

Yu et al. 2019, section III on parameter selection, after Gupta et al. 2010. A unit's part is a function of its
identifier, so two data sets that differ in one unit differ in one part:

- If it is one that candidate k is trained on, the other models have the same law on both, and the choice reads nothing
  else in which the data sets differ: all that is released is post-processing of run k and of what is equal.
- If it is the last part, all models have the same law on both, and given the models the choice is one release of
  bounded range.

A candidate whose run diverged is not chosen from, which is post-processing of that run.

So a search costs as much as the dearer of one run and one choice. Under replace-one a unit may change parts, and
nothing is proved here.

One unit adds between 0 and 1 to the score of a candidate, in units of the largest that it may add. With Gumbel noise of
scale 1 / epsilon on the scores, the log-probabilities of all candidates move by amounts that differ by at most epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from discreet.accounting.account import Method
from discreet.accounting.theories.pure import largest_range
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import BoundedRange, Event
from discreet.plan.fixed import FixedPlan, P
from discreet.plan.holdout import identifier_hash
from discreet.plan.pricing import set_aside
from discreet.plan.sampling import Positive
from discreet.plan.tuning.candidates import Candidates, grid_of


class PartsSearch(Candidates):
    """A private choice among the candidates in `grid`, each trained on its own part of the data and all scored on a
    further part.

    `score`: `accuracy`, how many units of the last part are predicted right, or `loss`, the sum of their losses, each
    clipped to [0, `bound`]. `epsilon` is the range of the privacy loss of the choice; `over` makes it as large as
    possible without a higher price than that of a run. `salt` is public and chosen before the data is seen.

    The plan is that of one run: its population counts the units of one part, a `share` of all.
    """

    THEOREM: ClassVar[str] = "disjoint-parts"

    kind: Literal["parts"] = "parts"
    score: Literal["accuracy", "loss"] = "accuracy"
    bound: Positive | None = None
    epsilon: Positive | None = None
    salt: str = "discreet parts 1"

    @classmethod
    def make(
        cls,
        grid: Mapping[str, Sequence[Any]],
        *,
        score: Literal["accuracy", "loss"] = "accuracy",
        bound: float | None = None,
    ) -> PartsSearch:
        """A search over all combinations of the values in `grid`; a loss needs the `bound` that it is clipped to."""
        if (score == "loss") != (bound is not None):
            raise InputError("a loss needs bound, where the loss of a unit is clipped; the accuracy has none")
        return cls(grid=grid_of(grid), score=score, bound=bound)

    @property
    def parts(self) -> int:
        """The number of parts of the data: one for each candidate, and the last to choose by."""
        return math.prod(len(setting.values) for setting in self.grid) + 1

    @property
    def share(self) -> float:
        """The expected share of all units that one run is trained on."""
        return 1 / self.parts

    @property
    def runs(self) -> int:
        """The number of runs that a unit may take part in."""
        return 1

    @property
    def choice(self) -> BoundedRange:
        """The event of the choice, on the last part."""
        if self.epsilon is None:
            raise InputError("the choice of the search has no epsilon yet; make its plan with search.over(plan)")
        return BoundedRange(self.epsilon)

    def part_of(self, identifier: int | str) -> int:
        """The part (from 0) of the unit with this identifier, by a hash: all parts are equally likely."""
        return (identifier_hash(identifier, self.salt) * self.parts) >> 64

    def check(self, plan: FixedPlan) -> None:
        """Refuse what no theorem here covers, and settings that are not what they seem."""
        super().check(plan)
        if self.parts < 3:
            raise InputError("a search over parts of the data needs at least two candidates to choose from")
        if (self.score == "loss") != (self.bound is not None):
            raise InputError("a loss needs bound, where the loss of a unit is clipped; the accuracy has none")
        if plan.adjacency is Adjacency.REPLACE_ONE:
            raise InputError(
                "a unit that is replaced may change parts, so a search over parts proves nothing under replace_one; "
                "use add_remove or zero_out, or a search of kind random_stopping"
            )
        if plan.sampling.SIZE_IS_PUBLIC:
            raise InputError(
                f"{plan.sampling.kind} sampling needs the number of rows to train on, which parts of the data make "
                "random; use poisson sampling"
            )
        if plan.metrics or plan.holdout is not None:
            raise InputError(
                "a search over parts of the data holds a part out for its choice already, and buys nothing else; "
                "leave out metrics and holdout"
            )
        _ = self.choice

    def events(self, trial: Event) -> tuple[Event, ...]:
        """Events on the parts of the data if one run releases `trial`: those of a run, and that of the choice."""
        return trial, self.choice

    def over(self, plan: P) -> P:
        """The plan of the search over runs of `plan`, with the sharpest choice that costs no more than a run."""
        alone = plan.model_copy(update={"search": None})
        delta = plan.delta - set_aside(plan.delta, plan.sampling.OVERFLOWS)
        cost = alone.first_guarantee(alone.charges, delta, Method.PLD).epsilon
        if not math.isfinite(cost):
            raise InputError("a run of the search has no finite epsilon; use more noise")
        found = self.model_copy(update={"epsilon": largest_range(cost, delta)})
        found.check(alone)
        return alone.model_copy(update={"search": found})

    def within(self, plan_of: Callable[[float], P], epsilon: float) -> P:
        """The search over runs of `plan_of(epsilon)`; it costs no more than one of them."""
        return self.over(plan_of(epsilon))
