"""`Plan`: every fact that privacy depends on. Sampler, clipping, noise and accounting are derived from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from discreet.accounting.account import Method, guarantee, parse
from discreet.accounting.calibrate import calibrate_noise
from discreet.accounting.schedules import Schedule
from discreet.accounting.tradeoff import TradeOff, trade_off
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import BudgetExhausted, InputError, LedgerError
from discreet.core.events import Compose, Event, Gaussian, Repeat
from discreet.core.guarantee import Guarantee
from discreet.plan.clipping import AnyClipping, Clipping, as_clipping
from discreet.plan.sampling import Count, Draw, PoissonSampling, Sampling
from discreet.plan.slack import SET_ASIDE, covers, reserve_for
from discreet.plan.validation import Frozen, explain, fingerprint
from discreet.sampling import OVERFLOW, Sampler

_CONFIRMABLE = 1 + 5e-4
"""A plan claims this much more than its bound, so that an accountant with a grid of its own can confirm the claim."""

Positive = Annotated[float, Field(gt=0)]
Delta = Annotated[float, Field(gt=0, lt=1)]


class NoisePhase(Frozen):
    """`steps` consecutive steps with one noise multiplier (noise std / sensitivity)."""

    multiplier: Positive
    steps: Count


class Plan(Frozen):
    """A training run as privacy sees it; public facts only, frozen, fixed before the data is seen.

    | field         | meaning |
    |---------------|---------|
    | adjacency     | when two data sets are neighbours; which ones are possible depends on the sampling |
    | unit          | what is protected: `example`, or `user`: all rows of one person |
    | rows_per_unit | how many rows of a user a step uses at most, drawn at random if there are more |
    | sampling      | how batches are drawn |
    | population    | declared public number of units; with the rate it gives the divisor of the noisy sum |
    | clipping      | how far one unit can move the sum |
    | noise         | multipliers, phase by phase; their steps add up to the steps of the run |
    | delta         | delta of the guarantee |
    | block         | steps reserved in the ledger at a time |
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
    delta: Delta
    block: Count = 50
    initial_state: str | None = None

    own_filter: ClassVar[None] = None
    """What is fixed beforehand needs no filter of its own."""

    @model_validator(mode="after")
    def _covered(self) -> Plan:
        """What no theorem covers is refused when the plan is made, and so is what its sampler cannot draw."""
        if self.adjacency not in self.sampling.ADJACENCIES:
            possible = ", ".join(adjacency.value for adjacency in self.sampling.ADJACENCIES)
            raise InputError(
                f"{self.sampling.kind} sampling has no guarantee under {self.adjacency.value}; use {possible}"
            )
        if self.unit is Unit.EXAMPLE and self.rows_per_unit != 1:
            raise InputError(f"rows_per_unit ({self.rows_per_unit}) goes with unit='user'; an example is one row")
        period = self.sampler.period
        if self.steps % period:
            raise InputError(f"steps ({self.steps}) must be a multiple of the {period} steps of an epoch or period")
        list(self._periods())
        self.clipping.check(self.steps, [phase.multiplier for phase in self.noise])
        return self

    @classmethod
    def make(
        cls,
        sampling: Sampling,
        *,
        population: float,
        steps: int,
        delta: float,
        clip_norm: float | Sequence[tuple[float, int]] | Schedule | None = None,
        clipping: AnyClipping | Mapping[str, object] | None = None,
        noise_multiplier: float | Sequence[tuple[float, int]] | Schedule = 1.0,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        unit: Unit | str = Unit.EXAMPLE,
        rows_per_unit: int = 1,
    ) -> Plan:
        """Plan `steps` steps on batches drawn by `sampling` out of a declared public `population`.

        `noise_multiplier` is one number, a list of (multiplier, steps) that adds up to `steps`, or a schedule
        (`accounting.schedules`), per epoch or per step; so is `clip_norm`. For other ways to clip give `clipping`
        instead (`plan.clipping`). To meet a budget, leave it out, or give its shape, and call
        `calibrate`, which scales it. With `unit="user"`, population and batches count users, and a step uses at most
        `rows_per_unit` rows of each.
        """
        if isinstance(noise_multiplier, Schedule):
            noise_multiplier = noise_multiplier.phases(steps, 1 / sampling.epoch(population))
        phases = noise_multiplier if isinstance(noise_multiplier, Sequence) else [(noise_multiplier, steps)]
        if any(not isinstance(phase, Sequence) or len(phase) != 2 for phase in phases):
            raise InputError("plan: noise_multiplier must be a number or a list of (multiplier, steps)")
        try:
            plan = cls(
                adjacency=parse(Adjacency, "adjacency", adjacency),
                unit=parse(Unit, "unit", unit),
                rows_per_unit=rows_per_unit,
                sampling=sampling,
                population=population,
                clipping=as_clipping(clip_norm, clipping, steps, sampling.epoch(population)),
                noise=tuple(NoisePhase(multiplier=multiplier, steps=count) for multiplier, count in phases),
                delta=delta,
            )
        except ValidationError as error:
            raise InputError(f"plan: {explain(error, cls)}") from None
        if plan.steps != steps:
            raise InputError(f"plan: the phases of noise_multiplier cover {plan.steps} steps, but steps is {steps}")
        return plan

    @classmethod
    def poisson(cls, *, population: float, batch: float, **rest: Any) -> Plan:
        """Plan Poisson batches of `batch` expected units; the rest is as in `make`."""
        rate = checks.positive("batch", batch) / checks.positive("population", population)
        try:
            sampling = PoissonSampling(rate=rate)
        except ValidationError as error:
            raise InputError(f"plan: sampling.{explain(error, PoissonSampling)}") from None
        return cls.make(sampling, population=population, **rest)

    @property
    def steps(self) -> int:
        """How many steps the plan has."""
        return sum(phase.steps for phase in self.noise)

    @property
    def sampler(self) -> Sampler:
        """What draws the batches."""
        return self.sampling.sampler(self.population)

    @property
    def expected_batch(self) -> float:
        """The public divisor of the noisy sum, never a realised or private size."""
        return self.sampling.expected_batch(self.population)

    def draw_of(self, event: Event) -> Draw:
        """How the batches of a charged event are drawn; the same for all of a fixed plan."""
        return self.sampling.draw(self.population)

    @property
    def largest_batch(self) -> int:
        """A public bound on the size of a batch."""
        return self.sampling.largest_batch(self.population)

    def event(self) -> Event:
        """All that the plan will release."""
        return self.first_steps(self.steps)

    def first_steps(self, count: int) -> Event:
        """What the first `count` steps release; an epoch or period that has begun counts whole."""
        parts, left = [], math.ceil(count / self.sampler.period)
        for event, times in self._periods():
            if left > 0:
                parts.append(Repeat(event, min(left, times)))
                left -= times
        return Compose(tuple(parts))

    def next_block(self, position: int) -> tuple[Event, ...]:
        """The events of the next block when `position` steps are charged already, at most to the end of the plan.

        The k-th charged step always uses the k-th step of the plan, so what is charged is a prefix of it. A block
        is whole epochs or periods, at least one.
        """
        period = self.sampler.period
        first, rest = divmod(position, period)
        if rest:
            raise LedgerError(f"{position} steps are charged, which is no whole number of periods of {period} steps")
        events: list[Event] = []
        end = 0
        for event, count in self._periods():
            begin, end = end, end + count
            taken = min(end, first + max(1, self.block // period)) - max(begin, first)
            events.extend([event] * max(0, taken))
        if not events:
            raise BudgetExhausted(f"all {self.steps} steps of the plan are charged; nothing more may be released")
        return tuple(events)

    def releases(self) -> set[Event]:
        """The different things that steps of the plan release."""
        return {Gaussian(phase.multiplier) for phase in self.noise}

    def guarantee(self, delta: float | None = None, method: Method = Method.PLD) -> Guarantee:
        """The guarantee of the whole plan; it also holds if the run is stopped early by what it released.

        Where batches have no largest size, a billionth of delta is set aside for those beyond `largest_batch`, for
        which the sums of fast engines have no float slack: T steps add at most (1 + e^epsilon) T `OVERFLOW` to delta.
        Epsilon is stated a twentieth of a percent above what was computed, so that another accountant can confirm it.
        """
        delta = self.delta if delta is None else delta
        reserve = reserve_for(checks.open_unit("delta", delta), self.sampling.OVERFLOWS)
        found = guarantee(self.event(), delta - reserve, self.adjacency, method)
        epsilon, lower = found.epsilon * _CONFIRMABLE, found.lower
        if reserve > 0:
            lower = guarantee(self.event(), delta, self.adjacency, method).lower
            epsilon = epsilon if covers(reserve, self.steps, found.epsilon) else math.inf
        return replace(found, epsilon=epsilon, delta=delta, lower=lower, unit=self.unit)

    def trade_off(self) -> TradeOff:
        """The trade-off function of the whole plan, loosened by what `guarantee` sets aside for large batches."""
        overflow = self.steps * OVERFLOW if self.sampling.OVERFLOWS else 0.0
        return trade_off(self.event(), self.adjacency).loosened(overflow)

    def calibrate(self, epsilon: float, delta: float | None = None) -> Plan:
        """A new plan whose noise is scaled to the smallest that meets (epsilon, delta), on the safe side."""
        plan = self if delta is None else self.model_copy(update={"delta": checks.open_unit("delta", delta)})
        delta = plan.delta * (1 - 2 * SET_ASIDE)
        epsilon = checks.positive("epsilon", epsilon)
        target = epsilon / (_CONFIRMABLE * (1 + 2.0**-50))
        scale, _ = calibrate_noise(lambda s: plan._scaled(s).event(), target, delta, plan.adjacency)
        found = plan._scaled(scale)
        found.clipping.check(found.steps, [phase.multiplier for phase in found.noise])
        return found

    def with_initial_state(self, digest: str) -> Plan:
        """A new plan that declares the state training starts from."""
        return self.model_copy(update={"initial_state": digest})

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the plan."""
        return fingerprint(self)

    def _scaled(self, factor: float) -> Plan:
        noise = tuple(NoisePhase(multiplier=phase.multiplier * factor, steps=phase.steps) for phase in self.noise)
        return self.model_copy(update={"noise": noise})

    def _periods(self) -> Iterator[tuple[Event, int]]:
        """What the periods of the sampler release, in order, equal neighbours counted together."""
        sampler = self.sampler
        if sampler.period == 1:
            for phase in self.noise:
                yield sampler.event(Gaussian(phase.multiplier)), phase.steps
            return
        for inner, equal in itertools.groupby(_cut(self.noise, sampler.period)):
            yield sampler.event(inner), len(list(equal))


def _cut(noise: Sequence[NoisePhase], period: int) -> Iterator[Event]:
    """What each period of `period` steps releases, as in `Epoch.event`."""
    parts: list[Event] = []
    room = period
    for phase in noise:
        left = phase.steps
        while left > 0:
            taken = min(left, room)
            parts.append(Repeat(Gaussian(phase.multiplier), taken))
            left, room = left - taken, room - taken
            if room == 0:
                yield Compose(tuple(parts))
                parts, room = [], period
