"""The interface of a fixed plan for the files that order, price and search it. `Plan` alone implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import Field

from discreet.accounting.account import Method
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee
from discreet.plan.adaptive.odometer_rule import Reading
from discreet.plan.batches import RatePhase
from discreet.plan.clip_rules import ClipRule
from discreet.plan.holdout import Holdout
from discreet.plan.metrics import Metric
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Sampling
from discreet.sampling import Sampler


class NoisePhase(Frozen):
    """`steps` consecutive steps with one noise multiplier (noise std / sensitivity)."""

    multiplier: Annotated[float, Field(gt=0)]
    steps: Count


class FixedPlan(Protocol):
    """Fields and figures of a plan; see `Plan`."""

    @property
    def adjacency(self) -> Adjacency: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def multipliers(self) -> list[tuple[float, int]]: ...
    @property
    def expected_batch(self) -> float: ...
    @property
    def epochs(self) -> float: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def population(self) -> float: ...
    @property
    def clipping(self) -> ClipRule: ...
    @property
    def noise(self) -> tuple[NoisePhase, ...]: ...
    @property
    def rates(self) -> tuple[RatePhase, ...]: ...
    @property
    def metrics(self) -> tuple[Metric, ...]: ...
    @property
    def before(self) -> Sequence[Event]: ...
    @property
    def holdout(self) -> Holdout | None: ...
    @property
    def odometer(self) -> Reading | None: ...
    @property
    def search(self) -> Any: ...
    @property
    def delta(self) -> float: ...
    @property
    def block(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def charges(self) -> int: ...
    @property
    def sampler(self) -> Sampler: ...

    def __hash__(self) -> int: ...

    def first_steps(self, count: int) -> Event: ...

    def first_guarantee(self, count: int, delta: float, method: Method) -> Guarantee: ...

    def guarantee(self) -> Guarantee: ...

    def scaled(self, factor: float) -> Self: ...

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self: ...


P = TypeVar("P", bound=FixedPlan)
