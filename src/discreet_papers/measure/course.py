"""A short form of a plan (batches, noise, length) for the settings that papers state, and its event."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from discreet.accounting import schedules
from discreet.core.adjacency import Adjacency, Query
from discreet.core.events import Compose, Epoch, Event, FixedSize, Gaussian, Poisson, Repeat
from discreet.plan.pydantic_base import Frozen, validate
from discreet.sampling.record import Count, Positive

_ADJACENCY = {"shuffle": Adjacency.ZERO_OUT, "fixed_size": Adjacency.REPLACE_ONE}


class Course(Frozen):
    """Releases of noisy sums of clipped gradients, and (epsilon, delta) is asked for at `delta`.

    `rate`, or `batch` of `population`; `steps`, or `epochs` (rounded to whole steps); `noise`, or a `schedule` by
    epochs. `clip_norms`: the noise is `noise` times this many clip norms (2 where records are replaced). `layers`: each
    of this many layers is clipped to C by itself and gets noise for C; a unit then moves the sum by sqrt(layers) C, so
    the multiplier is smaller by that root. `before`: noise multipliers of covariances that are released before the
    first step. The adjacency is add_remove, except for shuffled and fixed-size batches, which have no theorem under it.
    """

    sampling: Literal["poisson", "shuffle", "fixed_size", "none"] = "poisson"
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    batch: Positive | None = None
    population: Positive | None = None
    noise: Positive | None = None
    schedule: str | None = None
    clip_norms: Positive = 1.0
    layers: Count = 1
    steps: Count | None = None
    epochs: Positive | None = None
    before: tuple[Positive, ...] = ()
    delta: Annotated[float, Field(gt=0, lt=1)]
    neighbours: Adjacency | None = None

    @model_validator(mode="after")
    def _complete(self) -> Course:
        if self.sampling != "none" and (self.rate is None) == (self.batch is None or self.population is None):
            raise ValueError("give rate, or batch and population")
        if self.sampling == "fixed_size" and self.rate is not None:
            raise ValueError("fixed_size needs batch and population")
        if (self.noise is None) == (self.schedule is None):
            raise ValueError("give noise or schedule")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give steps or epochs")
        return self

    @property
    def share(self) -> float:
        """The probability that a unit is in a step."""
        if self.sampling == "none":
            return 1.0
        if self.rate is not None:
            return self.rate
        assert self.batch is not None
        assert self.population is not None
        return self.batch / self.population

    @property
    def length(self) -> int:
        """Steps."""
        return self.steps or max(1, round((self.epochs or 1) / self.share))

    @property
    def adjacency(self) -> Adjacency:
        """When two data sets are neighbours."""
        return self.neighbours or _ADJACENCY.get(self.sampling, Adjacency.ADD_REMOVE)

    def multiplier(self, noise: float) -> float:
        """The noise multiplier (noise std over one unit's contribution) for the paper's noise."""
        return noise * self.clip_norms / math.sqrt(self.layers)

    @property
    def phases(self) -> list[tuple[float, int]]:
        """(noise multiplier, steps), in order."""
        if self.schedule is None:
            assert self.noise is not None
            return [(self.multiplier(self.noise), self.length)]
        found = schedules.parse(self.schedule).phases(self.length, self.share)
        return [(self.multiplier(noise), steps) for noise, steps in found]

    def event(self) -> Event:
        """The event of everything released."""
        parts = [Gaussian(noise, Query.COVARIANCE) for noise in self.before]
        return Compose((*parts, *(self._stretch(noise, steps) for noise, steps in self.phases)))

    def _stretch(self, noise: float, steps: int) -> Event:
        inner = Gaussian(noise)
        match self.sampling:
            case "shuffle":
                period = round(1 / self.share)
                return Repeat(Epoch(Repeat(inner, period)), max(1, math.ceil(steps / period)))
            case "fixed_size":
                assert self.batch is not None
                assert self.population is not None
                return Repeat(FixedSize(int(self.population), int(self.batch), inner), steps)
            case _:
                return Repeat(inner if self.share == 1 else Poisson(self.share, inner), steps)


def course_of(facts: Any) -> Course:
    """The course in the facts of a cell."""
    return validate(Course, facts, "course")
