"""`Plan`: every fact that privacy depends on. Sampler, clipping, noise and accounting are derived from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from discreet.accounting.account import Method, parse
from discreet.accounting.adaptive.odometers import Odometer
from discreet.accounting.answers.tradeoff import TradeOff
from discreet.accounting.pld.epsilon_interval import default_tolerance
from discreet.accounting.schedules import Schedule
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian, Poisson
from discreet.core.guarantee import Guarantee
from discreet.core.rounding import CONFIRMABLE
from discreet.plan import pricing, timeline
from discreet.plan.adaptive.odometer_rule import Reading, as_reading, check_reading
from discreet.plan.batches import RatePhase, check_rates, check_strategy, rate_phases, spread, steps_for
from discreet.plan.clipping import AnyClipping, Clipping, as_clipping
from discreet.plan.fixed import FixedPlan, NoisePhase
from discreet.plan.holdout import Holdout, as_holdout, training_units
from discreet.plan.metrics import Metric, check_metrics
from discreet.plan.plan_facts import facts_of
from discreet.plan.pre_queries import Before, as_before, check_before
from discreet.plan.pricing import covers, set_aside
from discreet.plan.pydantic_base import validate
from discreet.plan.sampling import Count, Draw, Positive, Sampling
from discreet.plan.tuning.kinds import AnySearch
from discreet.sampling import OVERFLOW, PoissonSampling, Sampler

Delta = Annotated[float, Field(gt=0, lt=1)]

_BLOCK, _MOST_BLOCKS = 50, 1000


class Plan(FixedPlan):
    """The privacy plan of a training run: public facts only, frozen, and fixed before the data is seen.

    | field         | meaning                                                                                     |
    |---------------|---------------------------------------------------------------------------------------------|
    | adjacency     | when two data sets are neighbours; which ones are possible depends on the sampling          |
    | unit          | what is protected: `example`, or `user`: all rows of one person                             |
    | rows_per_unit | how many rows of a user a step uses at most, drawn at random if there are more              |
    | sampling      | how batches are drawn                                                                       |
    | population    | declared public number of units to train on; times the rate, the divisor of the noisy sum   |
    | clipping      | the clip rule: how far one unit can move the sum                                            |
    | rates         | of Poisson sampling, phase by phase, where they change; the first is that of the sampling   |
    | noise         | multipliers, phase by phase; their steps add up to the steps of the run                     |
    | metrics       | private metrics that are bought during the run                                              |
    | before        | queries on the same data that the run answers before its first step                         |
    | holdout       | the share of all units that is held out of training, for metrics                            |
    | odometer      | read when the run ends, or ends the run; its reading is ex post                             |
    | search        | the settings to try, with a run of the plan for each; only the best model is released       |
    | delta         | delta of the guarantee                                                                      |
    | block         | steps reserved in the ledger at a time                                                      |
    | initial_state | SHA-256 of the state the model starts from, declared public; set when training is assembled |

    The length of the data set appears nowhere: under `add_remove` it is private.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE
    rows_per_unit: Count = 1
    sampling: Sampling
    population: Positive
    clipping: Clipping
    noise: Annotated[tuple[NoisePhase, ...], Field(min_length=1)]
    rates: tuple[RatePhase, ...] = ()
    metrics: tuple[Metric, ...] = ()
    before: Before = ()
    holdout: Holdout | None = None
    odometer: Reading | None = None
    search: AnySearch | None = None
    delta: Delta
    block: Count = _BLOCK
    initial_state: str | None = None

    policy: ClassVar[None] = None
    filter: ClassVar[None] = None
    line_search: ClassVar[None] = None
    counts: ClassVar[None] = None

    @model_validator(mode="after")
    def _covered(self) -> Plan:
        """Refuse a plan that no theorem covers or whose batches its sampler cannot draw."""
        if self.unit is Unit.EXAMPLE and self.rows_per_unit != 1:
            raise InputError(f"rows_per_unit ({self.rows_per_unit}) goes with unit='user'; an example is one row")
        period = self.sampler.period
        if self.steps % period:
            raise InputError(f"steps ({self.steps}) must be a multiple of the {period} steps of an epoch or period")
        check_rates(self.rates, self.sampling, self.steps)
        check_metrics(self.metrics, holdout=self.holdout is not None, period=period)
        check_strategy(self.sampling, self.noise, self.clipping, self.metrics, self.odometer)
        check_before(self.before, self.unit, self.clipping)
        check_reading(self.odometer, self.adjacency, self.unit, [segment.event for segment in timeline.order(self)])
        self.clipping.check(self.steps, [phase.multiplier for phase in self.noise])
        if self.search is not None:
            self.search.check(self)
        return self

    @classmethod
    def make(
        cls,
        sampling: Sampling,
        *,
        population: float,
        steps: int | None = None,
        epochs: float | None = None,
        delta: float,
        clip_norm: float | Sequence[tuple[float, int]] | Schedule | None = None,
        clipping: AnyClipping | Mapping[str, object] | None = None,
        noise_multiplier: float | Sequence[tuple[float, int]] | Schedule | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        unit: Unit | str = Unit.EXAMPLE,
        rows_per_unit: int = 1,
        batches: Sequence[tuple[float, int]] | Schedule | None = None,
        metrics: Sequence[Metric] = (),
        before: Sequence[Event] = (),
        holdout: float | str | Holdout | None = None,
        odometer: str | Odometer | Reading | None = None,
        stop_at: float | None = None,
        block: int | None = None,
    ) -> Plan:
        """Plan `steps` steps, or `epochs` passes on average, on batches drawn by `sampling` out of a `population`.

        `noise_multiplier` is one number, a list of (multiplier, steps) that adds up to `steps`, or a schedule
        (`accounting.schedules`), per epoch or per step; so is `clip_norm`. For other ways to clip give `clipping`
        (`plan.clipping`). To meet a budget, leave the noise out, or give its shape, and call `calibrate`: left out, it
        is 1, which has a price, but with which no run begins. With `unit="user"`, the declared population and batches
        count users; a step uses at most `rows_per_unit` rows of each. `batches` changes the expected batch of Poisson
        sampling, by a list of (expected batch, steps) or a schedule. `metrics` are bought when they say; `before`:
        events that the run answers first (`answered_first`). `holdout` is never trained on. `odometer` (`renyi`, say)
        is read at the end; `stop_at` ends the run before it would read more. A `block` (50 steps, or a thousandth of
        all) is one entry of the ledger; a crash may lose it.
        """
        held = as_holdout(holdout)
        population = training_units(population, held)
        steps = steps_for(steps, epochs, partial(sampling.epoch, population), changing=batches is not None)
        rates = [] if batches is None else rate_phases(batches, population, checks.count("steps", steps))
        if rates and isinstance(sampling, PoissonSampling):
            sampling = PoissonSampling(rate=rates[0][0])
        multiplier = 1.0 if noise_multiplier is None else noise_multiplier
        phases = spread(multiplier, steps, rates or [(1 / sampling.epoch(population), steps)])
        near, whose = parse(Adjacency, "adjacency", adjacency), parse(Unit, "unit", unit)
        fields: dict[str, Any] = {
            "adjacency": near,
            "unit": whose,
            "rows_per_unit": rows_per_unit,
            "sampling": sampling,
            "population": population,
            "clipping": as_clipping(clip_norm, clipping, steps, sampling.epoch(population)),
            "noise": [{"multiplier": multiplier, "steps": count} for multiplier, count in phases],
            "rates": tuple(RatePhase(rate=rate, steps=count) for rate, count in rates),
            "metrics": tuple(metrics),
            "before": as_before(before),
            "holdout": held,
            "odometer": as_reading(odometer, stop_at, delta, near, whose),
            "delta": delta,
            "block": max(_BLOCK, steps // _MOST_BLOCKS) if block is None else block,
        }
        return validate(cls, fields, "plan")._lasting(steps)._with_noise(chosen=noise_multiplier is not None)

    def _lasting(self, steps: int) -> Plan:
        """This plan; `InputError` if its noise covers another number of steps."""
        if self.steps != steps:
            raise InputError(f"plan: the phases of noise_multiplier cover {self.steps} steps, but steps is {steps}")
        return self

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return sum(phase.steps for phase in self.noise)

    @property
    def charges(self) -> int:
        """The number of charges: training steps, metrics that are bought, and queries before the first step."""
        return sum(segment.length for segment in timeline.order(self))

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws the batches."""
        return self.sampling.sampler(self.population)

    def draw_of(self, event: Event) -> Draw:
        """How the batches of a charged event are drawn: at the rate that was charged."""
        rate = event.rate if self.rates and isinstance(event, Poisson) else None
        return (self.sampling if rate is None else PoissonSampling(rate=rate)).draw(self.population)

    @property
    def largest_batch(self) -> int:
        """A public bound on the size of a batch."""
        changed = [PoissonSampling(rate=phase.rate).largest_batch(self.population) for phase in self.rates]
        return max(changed, default=self.sampling.largest_batch(self.population))

    @property
    def multipliers(self) -> list[tuple[float, int]]:
        """(noise multiplier, steps), in order."""
        return [(phase.multiplier, phase.steps) for phase in self.noise]

    @property
    def batches(self) -> list[tuple[float, int]]:
        """(expected batch, steps), in order."""
        return [(phase.rate * self.population, phase.steps) for phase in self.rates] or [
            (self.expected_batch, self.steps)
        ]

    @property
    def epochs(self) -> float:
        """The average number of training steps that draw a unit."""
        if self.rates:
            return sum(phase.rate * phase.steps for phase in self.rates)
        return self.steps / self.sampling.epoch(self.population)

    def event(self) -> Event:
        """The event of everything that the plan will release."""
        return pricing.one_event(self, self.first_steps(self.charges))

    def first_steps(self, count: int) -> Event:
        """The event of the first `count` charged steps; an epoch or period that has begun counts whole."""
        return timeline.first_steps(self, count)

    def next_block(self, position: int) -> tuple[Event, ...]:
        """The events of the next block when `position` steps are charged already (`timeline.next_block`)."""
        return timeline.next_block(self, position)

    @property
    def first_event(self) -> Event:
        """The event of the first step of training, or of the first period of the sampler."""
        return self.next_block(len(self.before))[0]

    def purchases(self, metric: Metric) -> int:
        """The number of times that a metric is bought."""
        return timeline.purchases_of(metric, self.steps)

    def metric_at(self, position: int) -> Metric | None:
        """The metric that the charged step at this place buys; None for a step of training."""
        return timeline.metric_at(self, position)

    def step_at(self, position: int) -> int:
        """The number of training steps before the charge at `position`: metrics are charged too."""
        return timeline.step_at(self, position)

    def releases(self) -> set[Event]:
        """The different releases that steps of the plan make."""
        return {Gaussian(phase.multiplier) for phase in self.noise}

    def guarantee(self, delta: float | None = None, method: Method = Method.PLD) -> Guarantee:
        """The guarantee of the whole plan. It also holds if the run stops early, by whatever it released.

        Where batches have no largest size, a billionth of delta is set aside for batches beyond `largest_batch`,
        because the float slack of fast engines does not cover their sums: T steps add at most (1 + e^epsilon) T
        `OVERFLOW` to delta. The stated epsilon is a twentieth of a percent above the computed one, and at least 1e-12,
        so that another accountant can confirm it. With a hold-out, the dearer of the two parts counts (`holdout`).
        """
        delta = self.delta if delta is None else delta
        reserve = set_aside(checks.open_unit("delta", delta), self.sampling.OVERFLOWS)
        found = self.first_guarantee(self.charges, delta - reserve, method)
        epsilon, lower = max(found.epsilon * CONFIRMABLE, pricing.LEAST), found.lower
        if reserve > 0:
            lower = self.first_guarantee(self.charges, delta, method).lower
            epsilon = epsilon if covers(reserve, self.steps * pricing.runs(self), found.epsilon) else math.inf
        return replace(found, epsilon=epsilon, delta=delta, lower=lower, unit=self.unit)

    def first_guarantee(
        self, count: int, delta: float, method: Method, tolerance: Callable[[float], float] = default_tolerance
    ) -> Guarantee:
        """The computed guarantee of the first `count` charged steps, on the dearer part of the data."""
        return pricing.first_guarantee(self, count, delta, method, tolerance)

    def trade_off(self) -> TradeOff:
        """The trade-off function of the whole plan, loosened by what `guarantee` sets aside for large batches.

        With a hold-out it is that of the dearer part, and known from below alone.
        """
        overflow = self.steps * OVERFLOW if self.sampling.OVERFLOWS else 0.0
        return pricing.trade_off_of(self).loosened(overflow)

    def calibrate(self, epsilon: float, delta: float | None = None) -> Plan:
        """A new plan whose noise is scaled to the smallest that meets (epsilon, delta), on the safe side.

        The noise of metrics stays as it is; the steps get the rest of the budget. An odometer that reads at the plan's
        delta reads at the new one.
        """
        plan = self if delta is None else self._at(checks.open_unit("delta", delta))
        found = pricing.calibrated(plan, checks.positive("epsilon", epsilon))
        found.clipping.check(found.steps, [phase.multiplier for phase in found.noise])
        return found

    def _at(self, delta: float) -> Plan:
        """This plan at another delta."""
        reading = None if self.odometer is None else self.odometer.moved(self.delta, delta)
        return self.model_copy(update={"delta": delta, "odometer": reading})

    def facts(self) -> dict[str, str | None]:
        """The figures of the plan, and what all of it costs."""
        facts, name = facts_of(self), "noise multiplier"
        if self._noise_was_chosen:
            return facts
        return facts | {name: f"{facts[name]}, until you choose it: noise_multiplier=..., or calibrate(epsilon=...)"}

    def scaled(self, factor: float) -> Plan:
        """A new plan whose steps have `factor` times the noise."""
        noise = tuple(NoisePhase(multiplier=phase.multiplier * factor, steps=phase.steps) for phase in self.noise)
        return self.model_copy(update={"noise": noise})._with_noise(chosen=True)
