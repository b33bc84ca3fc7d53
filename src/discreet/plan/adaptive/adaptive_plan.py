"""`AdaptivePlan`: a run whose noise, batches and length are chosen as it goes, under a fixed privacy filter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import Field, model_validator

from discreet.accounting.account import parse
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometers import Odometer
from discreet.accounting.schedules import Schedule
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat
from discreet.core.guarantee import Guarantee
from discreet.plan.adaptive.history import Controls
from discreet.plan.adaptive.line_search import LineSearch
from discreet.plan.adaptive.line_search_check import check_search, usual_filter
from discreet.plan.adaptive.odometer_rule import Reading, as_reading, check_reading
from discreet.plan.adaptive.policies import Policy, as_policy
from discreet.plan.adaptive.run_filter import RunFilter, for_budget, loosened
from discreet.plan.clipping import AnyClipping, Clipping, as_clipping
from discreet.plan.holdout import Holdout, as_holdout, training_units
from discreet.plan.metrics import Counts, Metric, check_metrics
from discreet.plan.plan import Delta
from discreet.plan.plan_facts import named_facts
from discreet.plan.pre_queries import Before, as_before, check_before
from discreet.plan.pricing import covers, refuse_unproved, set_aside
from discreet.plan.pydantic_base import check_names, validate
from discreet.plan.run_plan import RunPlan
from discreet.plan.sampling import Count, Draw, Positive
from discreet.sampling import NoSampling, PoissonSampler, PoissonSampling, ShuffleSampling


class AdaptivePlan(RunPlan):
    """The privacy plan of a run whose steps are decided as it goes. Every field is public and fixed beforehand.

    | field      | meaning                                                                                |
    |------------|----------------------------------------------------------------------------------------|
    | sampling   | how batches are drawn; a policy may change the rate of Poisson sampling, and no other  |
    | policy     | decides from public history; no guarantee depends on it                                |
    | noise      | the multiplier that the policy starts from                                             |
    | every      | epochs of a phase: the policy decides when one begins, never inside                    |
    | counts     | noisy counts of correct private rows, bought after each phase if the policy needs them |
    | metrics    | metrics on private rows, bought after each phase; policies see them                    |
    | before     | queries on the same data that the run answers before its first step                    |
    | holdout    | the share of all units that is held out of training, for metrics                       |
    | odometer   | read when the run ends, or ends the run; its reading is ex post                        |
    | filter     | the privacy filter that adds up charges; it refuses a charge that does not fit         |
    | delta      | delta of the guarantee; the filter has all of it but a billionth                       |
    | most_steps | the most steps and counts that are charged; the run ends there                         |
    | block      | steps reserved in the ledger at a time                                                 |

    The other fields are those of `Plan`. The run ends when the policy says so, at `most_steps`, or when the filter
    refuses.
    """

    kind: Literal["adaptive"] = "adaptive"
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE
    sampling: Annotated[PoissonSampling | ShuffleSampling | NoSampling, Field(discriminator="kind")]
    population: Positive
    clipping: Clipping
    policy: Policy
    noise: Positive
    every: Positive = 1.0
    counts: Counts | None = None
    metrics: tuple[Metric, ...] = ()
    before: Before = ()
    holdout: Holdout | None = None
    odometer: Reading | None = None
    filter: RunFilter
    delta: Delta
    most_steps: Count
    block: Count = 50
    initial_state: str | None = None

    search: ClassVar[None] = None

    @model_validator(mode="after")
    def _covered(self) -> AdaptivePlan:
        """Refuse a plan that no theorem covers or that the filter cannot price."""
        if self.unit is not Unit.EXAMPLE:
            raise InputError("a run that is chosen on the way protects single rows; use a fixed Plan for users")
        if (self.filter.adjacency, self.filter.unit) != (self.adjacency, self.unit):
            raise InputError("the filter is for another adjacency or unit than the plan; make it for the plan's")
        if not self.filter.delta <= self.delta:
            raise InputError(f"the filter's delta {self.filter.delta:g} is above the plan's, {self.delta:g}")
        if self.policy.metric == "count" and self.counts is None:
            raise InputError("the policy looks at counts; say how they are bought with counts")
        if self.every != round(self.every) and not isinstance(self.sampling, PoissonSampling):
            raise InputError(f"every must be a whole number of epochs with {self.sampling.kind} sampling")
        check_search(self)
        if not all(amount < math.inf for amount in self.price(self.start)):
            raise InputError(f"not even one step with noise multiplier {self.noise:g} fits the filter; start with more")
        self._check_bought()
        self.clipping.check(self.most_steps, [self.noise])
        return self

    def _check_bought(self) -> None:
        check_metrics(self.metrics, holdout=self.holdout is not None, period=1)
        if any(metric.every is not None for metric in self.metrics):
            raise InputError("metrics of an adaptive run are bought after each phase; leave out every")
        if self.policy.metric in ("training_accuracy", "holdout_accuracy") and self.policy.metric not in {
            metric.name for metric in self.metrics
        }:
            raise InputError(f"the policy looks at {self.policy.metric}, which is not bought; add it to metrics")
        check_before(self.before, self.unit, self.clipping, self.filter.kind)
        bought = [one.event for one in (*self.metrics, *(() if self.counts is None else (self.counts,)))]
        for event in (*self.before, *bought):
            self.filter.cost(event)
        check_reading(self.odometer, self.adjacency, self.unit, [*self.before, *bought, self.event(self.start)])

    @classmethod
    def make(
        cls,
        sampling: PoissonSampling | ShuffleSampling | NoSampling,
        *,
        epsilon: float,
        delta: float,
        population: float,
        policy: object,
        noise_multiplier: float,
        most_steps: int,
        clip_norm: float | Sequence[tuple[float, int]] | Schedule | None = None,
        clipping: AnyClipping | Mapping[str, object] | None = None,
        course: Event | None = None,
        filter_kind: str | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        holdout: float | str | Holdout | None = None,
        odometer: str | Odometer | Reading | None = None,
        stop_at: float | None = None,
        before: Sequence[Event] = (),
        **rest: Any,
    ) -> AdaptivePlan:
        """Plan a run within (epsilon, delta), with a filter made for its expected events.

        `course`: the expected events, by default `most_steps` times the first one. They decide how far the budget goes,
        never what is guaranteed. `filter_kind`: by default `rdp-curve` with Poisson sampling, else `gdp`; `zcdp` with a
        line search. `clip_norm`, `clipping`, `before`, `odometer` and `stop_at` are those of `Plan.make`; `every`,
        `counts`, `metrics` and `block` are fields.
        """
        check_names(cls.make, rest, ("unit", "every", "counts", "metrics", "block"))
        near, held = parse(Adjacency, "adjacency", adjacency), as_holdout(holdout)
        population = training_units(population, held)
        kind = filter_kind or usual_filter(sampling, policy)
        reserve = set_aside(checks.open_unit("delta", delta), sampling.OVERFLOWS)
        start = _event(sampling, population, Controls(noise_multiplier, sampling.expected_batch(population)))
        most = checks.count("most_steps", most_steps)
        refuse_unproved(delta, sampling.OVERFLOWS, most, checks.positive("epsilon", epsilon))
        expected = Repeat(start, most) if course is None else course
        first = as_before(before)
        made = for_budget(kind, Compose((*first, expected)), epsilon, delta - reserve, near)
        fields: dict[str, Any] = {
            "adjacency": near,
            "sampling": sampling,
            "population": population,
            "clipping": as_clipping(clip_norm, clipping, most_steps, sampling.epoch(population)),
            "policy": as_policy(policy),
            "noise": noise_multiplier,
            "filter": made,
            "delta": delta,
            "most_steps": most,
            "holdout": held,
            "before": first,
            "odometer": as_reading(odometer, stop_at, delta, near, Unit.EXAMPLE),
            **rest,
        }
        return validate(cls, fields, "plan")

    def facts(self) -> dict[str, str | None]:
        """The figures of the plan, and what the run costs at most."""
        decides = {"policy": self.policy.kind, "filter": self.filter.kind}
        return named_facts(self, f"at most {self.most_steps:,}", f"{self.noise:.4g} at first", **decides)

    @property
    def start(self) -> Controls:
        """The controls that the policy starts from."""
        return Controls(self.noise, self.expected_batch)

    @property
    def multipliers(self) -> list[tuple[float, int]]:
        """(noise multiplier, steps) if all are as it starts."""
        return [(self.noise, self.most_steps)]

    @property
    def batches(self) -> list[tuple[float, int]]:
        """(expected batch, steps) if all are as it starts."""
        return [(self.expected_batch, self.most_steps)]

    @property
    def first_event(self) -> Event:
        """The release of the first period of the sampler."""
        return self.event(self.start)

    @property
    def line_search(self) -> LineSearch | None:
        """The policy if it is a line search, which chooses a step size after every step; else None."""
        return self.policy if isinstance(self.policy, LineSearch) else None

    @property
    def rows_per_unit(self) -> int:
        """One: the unit of privacy is a single row."""
        return 1

    @property
    def steps(self) -> int:
        """The most steps that may be charged."""
        return self.most_steps

    @property
    def charges(self) -> int:
        """As many as `steps`, which here count metrics, counts and queries before the first step too."""
        return self.most_steps

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee of the run, whatever is chosen as it goes and whenever it ends.

        It is the guarantee of the filter with its limits enlarged by `CONFIRMABLE`. A part of delta is set aside for
        batches that are too large for the float slack of fast engines (see `Plan.guarantee`): any path has at most
        `most_steps` of them.
        """
        delta = self.delta if delta is None else checks.open_unit("delta", delta)
        reserve = set_aside(delta, self.sampling.OVERFLOWS)
        found = loosened(self.filter).guarantee(delta - reserve)
        fits = not reserve > 0 or covers(reserve, self.most_steps, found.epsilon)
        return replace(found, epsilon=found.epsilon if fits else math.inf, delta=delta)

    def trade_off(self) -> NoReturn:
        """`NotProved`: a filter proves what its limits convert to."""
        raise NotProved("a filter proves what its limits convert to, and no trade-off function")

    def purchases(self, bought: Metric | Counts) -> float:
        """The number of times that a metric or count is bought if all phases are like the first: once after each."""
        return self.most_steps / self.phase_steps(self.start)

    def metric_at(self, position: int) -> None:
        """None: metrics are bought between blocks."""

    def price(self, controls: Controls) -> Amounts:
        """The filter's cost of one step (or one epoch of disjoint batches) with these controls; infinite if far over
        the filter.

        With a line search, the choice of the step size is part of it. Impossible controls are an `InputError`.
        """
        event = self.event(controls)
        return self.filter.cost(event if self.line_search is None else Compose((event, self.line_search.event)))

    def event(self, controls: Controls) -> Event:
        """The release of one period of the sampler (a step, or an epoch of disjoint batches) with these controls."""
        return _event(self.sampling, self.population, controls)

    def checked(self, decided: object) -> Controls:
        """A policy's controls, checked. Impossible ones are an `InputError`, before any data is read for them."""
        if not isinstance(decided, Controls):
            raise InputError(f"a policy returns Controls, or None to end the run; got {decided!r:.80}")
        self.price(decided)
        self.clipping.check(self.most_steps, [decided.noise_multiplier])
        return decided

    def phase_steps(self, controls: Controls) -> int:
        """The number of steps of a phase with these controls."""
        period = self.draw_of(self.event(controls)).sampler.period
        if period > 1:
            return period * round(self.every)
        return max(1, round(self.every * self.population / controls.expected_batch))

    def block_of(self, controls: Controls, position: int, left: int) -> tuple[Event, ...]:
        """Events of the next block, when `position` steps are charged and the phase has `left` more; () at the end."""
        event = self.event(controls)
        if self.line_search is not None:  # a gradient is paid for together with the choice that needs it
            return (event, self.line_search.event) if position + 2 <= self.most_steps else ()
        period = self.draw_of(event).sampler.period
        room = min(left, self.most_steps - position) // period
        return (event,) * max(0, min(room, max(1, self.block // period)))

    def draw_of(self, event: Event) -> Draw:
        """How the batches of a charged event are drawn: at the rate that was charged."""
        if isinstance(event, Poisson):
            return PoissonSampling(rate=event.rate).draw(self.population)
        return self.sampling.draw(self.population)

    def step_at(self, position: int) -> int:
        """The place of a charged step in the schedule of the clip norm. In an adaptive plan counts and metrics have
        places too."""
        return max(0, position - len(self.before))


def _event(sampling: PoissonSampling | ShuffleSampling | NoSampling, population: float, controls: Controls) -> Event:
    noise = Gaussian(controls.noise_multiplier)
    if isinstance(sampling, PoissonSampling):
        if not controls.expected_batch <= population:
            raise InputError(
                f"an expected batch of {controls.expected_batch:g} is more than the population of {population:g}"
            )
        return PoissonSampler(controls.expected_batch / population).event(noise)
    if controls.expected_batch != sampling.expected_batch(population):
        raise InputError(f"{sampling.kind} sampling keeps its batches; a policy may change the noise only")
    sampler = sampling.sampler(population)
    return sampler.event(noise if sampler.period == 1 else Compose((Repeat(noise, sampler.period),)))
