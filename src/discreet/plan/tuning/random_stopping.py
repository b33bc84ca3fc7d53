"""A search for settings as part of a plan: the best of a secret number of trials, each a whole run of the plan.

The grid of settings is public; each trial draws its settings from it at random. All trials have the same noise,
sampling and number of steps, so they cost the same whatever their settings. As only the best trial is released, the
search costs less than all its trials together (Liu and Talwar 2019; Papernot and Steinke 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import Event, Selection
from discreet.core.trials import (
    PoissonTrials,
    Trials,
    trials_from_json,
    trials_to_json,
    with_mean,
)
from discreet.plan.fixed import FixedPlan, P
from discreet.plan.tuning.candidates import Candidates, grid_of

LAWS = ("geometric", "logarithmic", "poisson")
"""Names of the laws of the number of trials: truncated negative binomial with shape 1 and 0, and Poisson."""

_CLOSE_ENOUGH = 2e-3
_ROUNDS = 24


def law(name: str, mean: float, given: str = "trials") -> Trials:
    """The law called `name` with `mean` trials. `given`: what errors call the mean."""
    if name not in LAWS:
        raise InputError(f"unknown law of trials {name!r}; known: {', '.join(LAWS)}")
    mean = checks.positive(given, mean)
    if name == "poisson":
        return PoissonTrials(mean)
    if not mean > 1:
        raise InputError(f"{given} is the mean number of trials, above 1; got {mean:g}. For one run use train")
    return with_mean(1.0 if name == "geometric" else 0.0, mean)


def _decoded(value: object) -> Trials:
    found = trials_from_json(value) if isinstance(value, Mapping) else value
    if not isinstance(found, Trials):
        raise InputError(f"trials must be a law of their number, got {value!r:.80}")
    return found


class Search(Candidates):
    """The best of K trials by `score`. K is secret and has the law `trials`; each trial draws its settings from `grid`.

    `score` is a metric on public validation data (`validation_accuracy`) or one that every trial buys
    (`holdout_accuracy`) and pays for. A score whose name ends in `loss` is better when it is lower.
    """

    kind: Literal["random_stopping"] = "random_stopping"
    trials: Annotated[Trials, PlainValidator(_decoded), PlainSerializer(trials_to_json)]
    score: Annotated[str, Field(min_length=1)]

    @classmethod
    def make(
        cls, grid: Mapping[str, Sequence[Any]], trials: float | Trials, *, score: str, law_of_trials: str = "geometric"
    ) -> Search:
        """A search over all combinations of the values in `grid`. `trials` is a law, or the mean of the law named
        `law_of_trials`."""
        found = trials if isinstance(trials, Trials) else law(law_of_trials, trials)
        return cls(trials=found, score=score, grid=grid_of(grid))

    @property
    def runs(self) -> int:
        """The average number of runs that a unit may take part in, rounded up."""
        return math.ceil(self.trials.mean)

    def check(self, plan: FixedPlan) -> None:
        """Refuse what no theorem here covers, and settings that are not what they seem."""
        super().check(plan)
        if not self.score.startswith("validation_") and self.score not in {m.name for m in plan.metrics}:
            raise InputError(f"the score is {self.score}, which the plan does not buy; add it to metrics")

    def events(self, trial: Event) -> tuple[Event, ...]:
        """The event of the search if one run releases `trial`: the best of K such runs."""
        return (Selection(trial, self.trials),)

    def over(self, plan: P) -> P:
        """The plan of the search over runs of `plan`."""
        found = plan.model_copy(update={"search": self})
        self.check(found)
        return found

    def within(self, plan_of: Callable[[float], P], epsilon: float) -> P:
        """The search over runs of `plan_of(e)`, with about the largest e for which the search costs at most `epsilon`.

        The returned plan itself was priced, so it meets the budget however the search for e went.
        """
        low, high, guess, best = epsilon / 64, epsilon, epsilon / 2, None
        for _ in range(_ROUNDS):
            found = self.over(plan_of(guess))
            cost = found.guarantee().epsilon
            if cost <= epsilon:
                low, best = guess, found
                if cost >= epsilon * (1 - _CLOSE_ENOUGH):
                    break
            else:
                high = guess
            if high - low <= 1e-4 * high:
                break
            # nearly proportional, so the next guess is aimed a bit below the budget
            aimed = guess * epsilon * (1 - _CLOSE_ENOUGH / 2) / cost if 0 < cost < math.inf else 0.0
            guess = aimed if low < aimed < high else 0.5 * (low + high)
        if best is None:
            raise InputError(
                f"no noise brings this search within epsilon {epsilon:g}; take fewer trials, or a larger delta"
            )
        return best
