"""A fixed plan as the files see it that order, price and search it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import Field

from discreet.accounting.account import Method
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee
from discreet.plan.batches import RatePhase
from discreet.plan.pydantic_base import Frozen
from discreet.plan.run_plan import RunPlan
from discreet.plan.sampling import Count
from discreet.sampling import Sampler


class NoisePhase(Frozen):
    """`steps` consecutive steps with one noise multiplier (noise std / sensitivity)."""

    multiplier: Annotated[float, Field(gt=0)]
    steps: Count


class FixedPlan(RunPlan):
    """A plan whose events are all known beforehand; see `Plan`, which alone is one."""

    if TYPE_CHECKING:
        noise: tuple[NoisePhase, ...]
        rates: tuple[RatePhase, ...]
        search: Any

        @property
        def epochs(self) -> float: ...
        @property
        def sampler(self) -> Sampler: ...

        def first_steps(self, count: int) -> Event: ...

        def first_guarantee(self, count: int, delta: float, method: Method) -> Guarantee: ...

        def scaled(self, factor: float) -> Self: ...


P = TypeVar("P", bound=FixedPlan)
