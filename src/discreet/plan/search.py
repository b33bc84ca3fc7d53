"""A search for settings as part of a plan: the best of a secret number of trials, each a whole run of the plan.

Which settings are tried is public; a trial draws its own at random among them. All trials have the same noise, sampling
and number of steps, so that they cost the same whatever their settings. Scored, with the best one released and nothing
else, they cost less than all of them would (Liu and Talwar 2019; Papernot and Steinke 2022).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.trials import (
    NegativeBinomialTrials,
    PoissonTrials,
    Trials,
    trials_from_json,
    trials_to_json,
    with_mean,
)
from discreet.plan.clipping import FlatClipping
from discreet.plan.validation import Frozen

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

LAWS = ("geometric", "logarithmic", "poisson")
"""Laws of the number of trials by name: shape 1 and 0 of the truncated negative binomial one, and Poisson's."""

CLIP_NORM = "clip_norm"
"""The one setting that is the plan's: the noise is relative to it, so that it costs nothing to vary it."""

_CLOSE_ENOUGH = 2e-3
_ROUNDS = 24


def law(name: str, mean: float) -> Trials:
    """The law called `name` with `mean` trials."""
    if name not in LAWS:
        raise InputError(f"unknown law of trials {name!r}; known: {', '.join(LAWS)}")
    mean = checks.positive("trials", mean)
    if name == "poisson":
        return PoissonTrials(mean)
    if not mean > 1:
        raise InputError(f"trials is the mean number of trials, above 1; got {mean:g}. For one run use train")
    return with_mean(1.0 if name == "geometric" else 0.0, mean)


def _decoded(value: object) -> Trials:
    found = trials_from_json(value) if isinstance(value, Mapping) else value
    if not isinstance(found, NegativeBinomialTrials | PoissonTrials):
        raise InputError(f"trials must be a law of their number, got {value!r:.80}")
    return found


def _frozen(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_frozen(one) for one in value)
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"a value of a setting must be a number, text or a list of these, not {value!r:.80}")
    return value


class Setting(Frozen):
    """A setting by name, and the values that trials draw from."""

    name: Annotated[str, Field(min_length=1)]
    values: Annotated[tuple[Any, ...], Field(min_length=1), BeforeValidator(_frozen)]


class Search(Frozen):
    """The best of K trials by `score`, K secret with the law `trials`; each trial has settings at random from `grid`.

    `score` is a metric on public validation data (`validation_accuracy`) or one that every trial buys
    (`holdout_accuracy`), and then pays for. One named loss is better when it is lower. `initial_states` are digests of
    the public states that the candidates start from, in order; they are set when the search is assembled.
    """

    kind: Literal["random_stopping"] = "random_stopping"
    trials: Annotated[Trials, PlainValidator(_decoded), PlainSerializer(trials_to_json)]
    score: Annotated[str, Field(min_length=1)]
    grid: Annotated[tuple[Setting, ...], Field(min_length=1)]
    initial_states: tuple[str, ...] = ()

    @classmethod
    def make(
        cls, grid: Mapping[str, Sequence[Any]], trials: float | Trials, *, score: str, law_of_trials: str = "geometric"
    ) -> Search:
        """A search over all combinations of the values in `grid`; `trials` is a law, or the mean of the named one."""
        if not grid or any(isinstance(values, str) or len(values) < 1 for values in grid.values()):
            raise InputError("the grid of a search needs at least one setting, and each a list of at least one value")
        found = trials if isinstance(trials, NegativeBinomialTrials | PoissonTrials) else law(law_of_trials, trials)
        settings = tuple(Setting(name=name, values=tuple(values)) for name, values in grid.items())
        return cls(trials=found, score=score, grid=settings)

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """What trials draw from, each combination equally likely."""
        names = [setting.name for setting in self.grid]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(s.values for s in self.grid))]

    def check(self, plan: Plan) -> None:
        """Refuse what no theorem here covers, and settings that are not what they seem."""
        names = [setting.name for setting in self.grid]
        if len(set(names)) < len(names):
            raise InputError(f"a setting is in the grid twice: {', '.join(names)}")
        if plan.odometer is not None:
            raise InputError("an odometer reads one run, and a search releases the best of several; leave it out")
        if plan.before:
            raise InputError("a search cannot begin with queries of its own (before); answer them in a run by itself")
        if not self.score.startswith("validation_") and self.score not in {m.name for m in plan.metrics}:
            raise InputError(f"the score is {self.score}, which the plan does not buy; add it to metrics")
        norms = next((setting.values for setting in self.grid if setting.name == CLIP_NORM), ())
        if norms and not isinstance(plan.clipping, FlatClipping):
            raise InputError(f"clip_norm is a setting of flat clipping, and the plan clips {plan.clipping.kind}")
        for norm in norms:
            checks.positive(CLIP_NORM, norm)

    def over(self, plan: Plan) -> Plan:
        """The plan of the search over runs of `plan`."""
        found = plan.model_copy(update={"search": self})
        self.check(found)
        return found

    def one_trial(self, plan: Plan, settings: Mapping[str, Any]) -> Plan:
        """The plan of a single trial with these settings, as if there were no search."""
        alone = plan.model_copy(update={"search": None})
        if CLIP_NORM not in settings:
            return alone
        return alone.model_copy(update={"clipping": FlatClipping(norm=settings[CLIP_NORM])})


def within(plan_of: Callable[[float], Plan], search: Search, epsilon: float) -> Plan:
    """The search over `plan_of(e)`, a run that costs e, with about the largest e for which the search costs `epsilon`.

    What is returned was priced as it is, so the budget is met however the search for e went.
    """
    low, high, guess, best = epsilon / 64, epsilon, epsilon / 2, None
    for _ in range(_ROUNDS):
        found = search.over(plan_of(guess))
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
