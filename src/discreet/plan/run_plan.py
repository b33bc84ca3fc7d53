"""The interface that fixed and adaptive plans share."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic import PrivateAttr, model_validator

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee
from discreet.core.html import fact_lines, fact_table
from discreet.plan.adaptive.odometer_rule import Reading
from discreet.plan.clip_rules import ClipRule
from discreet.plan.holdout import Holdout, as_holdout, training_units
from discreet.plan.metrics import Metric
from discreet.plan.pydantic_base import Frozen, in_our_words
from discreet.plan.sampling import Sampling
from discreet.sampling import PoissonSampling


class RunPlan(Frozen):
    """A run as privacy sees it. Both kinds of plan answer the questions below; None stands for what a kind lacks.

    | question             | fixed                          | adaptive                                     |
    |----------------------|--------------------------------|----------------------------------------------|
    | policy, filter       | None                           | what decides, and what every block is put to |
    | line_search, counts  | None                           | how it decides, and what it buys for that    |
    | search               | settings that several runs try | None                                         |
    | steps, charges       | of training, and in all        | the most that may be charged                 |
    | multipliers, batches | (value, steps), in order       | the same, if all are as it starts            |
    | first_event          | what the first period releases | the same, as it starts                       |
    | metric_at            | what a charged step buys       | None: metrics are bought between blocks      |
    | purchases            | how often a metric is bought   | the same, if all phases are like the first   |
    | trade_off            | of all that is released        | `NotProved`                                  |
    """

    _noise_was_chosen: bool = PrivateAttr(default=True)

    if TYPE_CHECKING:  # each kind declares its fields in the order in which it is published
        adjacency: Adjacency
        unit: Unit
        sampling: Sampling
        population: float
        clipping: ClipRule
        metrics: tuple[Metric, ...]
        before: tuple[Event, ...]
        holdout: Holdout | None
        odometer: Reading | None
        delta: float
        block: int

        @property
        def steps(self) -> int: ...
        @property
        def charges(self) -> int: ...
        @property
        def multipliers(self) -> list[tuple[float, int]]: ...

        def guarantee(self) -> Guarantee: ...

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        """Refuse sampling that has no guarantee under the adjacency, and a hold-out that would reveal its size."""
        if self.adjacency not in self.sampling.ADJACENCIES:
            possible = ", ".join(adjacency.value for adjacency in self.sampling.ADJACENCIES)
            raise InputError(
                f"{self.sampling.kind} sampling has no guarantee under {self.adjacency.value}; use {possible}"
            )
        if self.holdout is not None and self.sampling.SIZE_IS_PUBLIC:
            raise InputError(
                f"{self.sampling.kind} sampling needs the number of rows to train on, which a holdout makes random; "
                "use poisson sampling"
            )
        return self

    @classmethod
    @in_our_words
    def poisson(
        cls, *, population: float, batch: float, holdout: float | str | Holdout | None = None, **rest: Any
    ) -> Self:
        """A plan with Poisson batches of `batch` expected units (an adaptive one starts with them); the other arguments
        are those of `make`."""
        held, kind = as_holdout(holdout), cast(Any, cls)
        sampling = PoissonSampling.of_batch(batch, training_units(population, held))
        made: Self = kind.make(sampling, population=population, holdout=held, **rest)
        return made

    @property
    def expected_batch(self) -> float:
        """The public divisor of the noisy sum of the first step; never a realised or private size."""
        return self.sampling.expected_batch(self.population)

    def units_of(self, metric: Metric) -> tuple[float, float]:
        """The declared number of units that a metric is about, and their share of all units."""
        if self.holdout is None:
            return self.population, 1.0
        if metric.rows == "training":
            return self.population, 1 - self.holdout.share
        return self.holdout.units(self.population), self.holdout.share

    def with_initial_state(self, digest: str) -> Self:
        """A new plan that declares the state training starts from. `InputError` if nobody has chosen its noise."""
        if not self._noise_was_chosen:
            raise InputError(
                "nobody has chosen the noise of this plan; meet a budget by plan.calibrate(epsilon=...), or give "
                "noise_multiplier when the plan is made"
            )
        return self.model_copy(update={"initial_state": digest})

    def _with_noise(self, *, chosen: bool) -> Self:
        """This plan, of which it is known whether somebody has chosen its noise."""
        self._noise_was_chosen = chosen
        return self

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal. Whether somebody has chosen the noise is not one of them, and is not saved."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def facts(self) -> dict[str, str | None]:
        """Names and values for people; None for what the plan does not have."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The figures of the plan, a line each."""
        return fact_lines(type(self).__name__, self.facts())

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return fact_table(type(self).__name__, self.facts())

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the plan."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
