"""`Plan`: every fact that privacy depends on. Sampler, clipping, noise and accounting are derived from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, ValidationError

from discreet.accounting.account import Method, guarantee, parse
from discreet.accounting.calibrate import calibrate_noise
from discreet.accounting.tradeoff import TradeOff, trade_off
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import Compose, Event, Gaussian, Repeat
from discreet.core.guarantee import Guarantee
from discreet.plan.validation import Frozen, explain
from discreet.sampling import OVERFLOW, PoissonSampler

_SET_ASIDE = 1e-9
"""The share of delta that is kept for batches beyond `largest_batch`."""

Positive = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, le=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class PoissonSampling(Frozen):
    """Each unit is in each batch independently with probability `rate`."""

    kind: Literal["poisson"] = "poisson"
    rate: Rate

    def sampler(self) -> PoissonSampler:
        """The sampler whose draws have exactly the law that its events name."""
        return PoissonSampler(self.rate)


class FlatClipping(Frozen):
    """One example's gradient, all parameters together, is scaled down to L2 norm at most `norm`."""

    kind: Literal["flat"] = "flat"
    norm: Annotated[float, Field(ge=1e-30, le=1e30)]

    @property
    def sensitivity(self) -> float:
        """What one unit contributes at most to the sum."""
        return self.norm


class NoisePhase(Frozen):
    """`steps` consecutive steps with one noise multiplier (noise std / sensitivity)."""

    multiplier: Positive
    steps: Count


class Plan(Frozen):
    """A training run as privacy sees it; public facts only, frozen, fixed before the data is seen.

    | field         | meaning |
    |---------------|---------|
    | adjacency     | when two data sets are neighbours: `add_remove` or `zero_out` |
    | unit          | what is protected: `example` |
    | sampling      | how batches are drawn |
    | population    | declared public size of the data set; with the rate it gives the divisor of the noisy sum |
    | clipping      | how far one unit can move the sum |
    | noise         | multipliers, phase by phase; their steps add up to the steps of the run |
    | delta         | delta of the guarantee |
    | block         | steps reserved in the ledger at a time |
    | initial_state | SHA-256 of the state the model starts from, declared public; set when training is assembled |

    The length of the data set appears nowhere: under `add_remove` it is private.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE
    sampling: PoissonSampling
    population: Positive
    clipping: FlatClipping
    noise: Annotated[tuple[NoisePhase, ...], Field(min_length=1)]
    delta: Delta
    block: Count = 50
    initial_state: str | None = None

    @classmethod
    def poisson(
        cls,
        *,
        population: float,
        batch: float,
        steps: int,
        clip_norm: float,
        delta: float,
        noise_multiplier: float | Sequence[tuple[float, int]] = 1.0,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    ) -> Plan:
        """Plan Poisson batches of `batch` expected examples out of a declared public `population`.

        `noise_multiplier` is one number, or a list of (multiplier, steps) that adds up to `steps`. To meet a
        budget, leave it out and call `calibrate`, which scales it.
        """
        phases = noise_multiplier if isinstance(noise_multiplier, Sequence) else [(noise_multiplier, steps)]
        if any(not isinstance(phase, Sequence) or len(phase) != 2 for phase in phases):
            raise InputError("plan: noise_multiplier must be a number or a list of (multiplier, steps)")
        rate = checks.positive("batch", batch) / checks.positive("population", population)
        try:
            plan = cls(
                adjacency=parse(Adjacency, "adjacency", adjacency),
                sampling=PoissonSampling(rate=rate),
                population=population,
                clipping=FlatClipping(norm=clip_norm),
                noise=tuple(NoisePhase(multiplier=multiplier, steps=count) for multiplier, count in phases),
                delta=delta,
            )
        except ValidationError as error:
            raise InputError(f"plan: {explain(error, cls)}") from None
        if plan.steps != steps:
            raise InputError(f"plan: the phases of noise_multiplier cover {plan.steps} steps, but steps is {steps}")
        return plan

    @property
    def steps(self) -> int:
        """How many steps the plan has."""
        return sum(phase.steps for phase in self.noise)

    @property
    def expected_batch(self) -> float:
        """The public divisor of the noisy sum: rate x declared population, never a realised or private size."""
        return self.sampling.rate * self.population

    def event(self) -> Event:
        """All that the plan will release."""
        return self.first_steps(self.steps)

    def first_steps(self, count: int) -> Event:
        """What the first `count` steps release."""
        parts, left = [], count
        for phase in self.noise:
            if left > 0:
                parts.append(Repeat(self._step_event(phase), min(left, phase.steps)))
                left -= phase.steps
        return Compose(tuple(parts))

    def next_block(self, position: int) -> tuple[Event, ...]:
        """The events of the next block when `position` steps are charged already, at most to the end of the plan.

        The k-th charged step always uses the k-th event of the plan, so what is charged is a prefix of it.
        """
        events: list[Event] = []
        end = 0
        for phase in self.noise:
            begin, end = end, end + phase.steps
            taken = min(end, position + self.block) - max(begin, position)
            events.extend([self._step_event(phase)] * max(0, taken))
        if not events:
            raise BudgetExhausted(f"all {self.steps} steps of the plan are charged; nothing more may be released")
        return tuple(events)

    def guarantee(self, delta: float | None = None, method: Method = Method.PLD) -> Guarantee:
        """The guarantee of the whole plan; it also holds if the run is stopped early by what it released.

        A billionth of delta is set aside for batches larger than `largest_batch`, for which the sums of fast
        engines have no float slack: T steps add at most (1 + e^epsilon) T `OVERFLOW` to delta.
        """
        delta = self.delta if delta is None else delta
        reserve = _SET_ASIDE * checks.open_unit("delta", delta)
        found = guarantee(self.event(), delta - reserve, self.adjacency, method)
        lower = guarantee(self.event(), delta, self.adjacency, method).lower
        log_overflow = math.log(self.steps * OVERFLOW) + np.logaddexp(0.0, found.epsilon)
        epsilon = found.epsilon if log_overflow <= math.log(reserve) else math.inf
        return replace(found, epsilon=epsilon, delta=delta, lower=lower)

    def trade_off(self) -> TradeOff:
        """The trade-off function of the whole plan, loosened by what `guarantee` sets aside for large batches."""
        return trade_off(self.event(), self.adjacency).loosened(self.steps * OVERFLOW)

    def calibrate(self, epsilon: float, delta: float | None = None) -> Plan:
        """A new plan whose noise is scaled to the smallest that meets (epsilon, delta), on the safe side."""
        plan = self if delta is None else self.model_copy(update={"delta": checks.open_unit("delta", delta)})
        delta = plan.delta * (1 - 2 * _SET_ASIDE)
        scale, _ = calibrate_noise(lambda s: plan._scaled(s).event(), epsilon, delta, plan.adjacency)
        return plan._scaled(scale)

    def with_initial_state(self, digest: str) -> Plan:
        """A new plan that declares the state training starts from."""
        return self.model_copy(update={"initial_state": digest})

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the plan."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def _scaled(self, factor: float) -> Plan:
        noise = tuple(NoisePhase(multiplier=phase.multiplier * factor, steps=phase.steps) for phase in self.noise)
        return self.model_copy(update={"noise": noise})

    def _step_event(self, phase: NoisePhase) -> Event:
        return self.sampling.sampler().event(Gaussian(phase.multiplier))
