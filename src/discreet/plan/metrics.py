"""Private metrics: metrics on private rows, released with Gaussian noise and priced like the steps of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, WithJsonSchema, model_validator

from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive, Rate
from discreet.sampling import EveryoneSampler, PoissonSampler, Sampler

Part = Literal["training", "holdout"]
"""Rows to train on, or held out."""

KINDS = {"accuracy": Query.CENTRED_BIT, "loss": Query.LOSS, "size": Query.COUNT}
"""What each kind of metric sums over units. Their values are in `training.private_metrics.unit_values`."""


def _known(kind: str) -> str:
    if kind not in KINDS:
        *others, last = map(repr, KINDS)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return kind


Kind = Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": list(KINDS), "type": "string"})]


class Metric(Frozen):
    """A metric of the model on private rows, bought during the run.

    | field | meaning                                                                                     |
    |-------|---------------------------------------------------------------------------------------------|
    | kind  | `accuracy`, `loss`: per example, clipped to [0, bound], or `size`: how many units there are |
    | noise | the noise multiplier: noise std / the most that one unit contributes                        |
    | every | steps between purchases; by default once, at the end (of each phase, in an adaptive run)    |
    | bound | where losses are clipped                                                                    |
    | rows  | `training` or `holdout`: the units that are looked at                                       |
    | rate  | each of these units is looked at with this probability; by default all are                  |

    The summed values are centred: a right or wrong prediction counts 1/2 or -1/2, and half the bound is taken off each
    loss. So one unit moves the sum by at most half the range; twice that if it is replaced. The noisy sum is divided by
    a declared public number of units, never by the number that was there, and the centre is added again. If the
    declared number may be far off, or a hold-out is small, buy the size as well: it is bought once, before the first
    other metric on these rows, and the noisy size then divides.
    """

    kind: Kind = "accuracy"
    noise: Positive
    every: Count | None = None
    bound: Positive | None = None
    rows: Part = "training"
    rate: Rate | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Metric:
        if (self.kind == "loss") != (self.bound is not None):
            raise InputError("a loss needs bound, where the loss of an example is clipped; other metrics have none")
        if self.kind == "size" and (self.every, self.rate) != (None, None):
            raise InputError("a size is bought once, of all units; leave out every and rate")
        return self

    @property
    def name(self) -> str:
        """The name that policies, early stopping and certificates use."""
        return f"{self.rows}_{self.kind}"

    @property
    def range(self) -> float:
        """The largest value of a unit less the least."""
        return 1.0 if self.bound is None else self.bound

    @property
    def contribution(self) -> float:
        """The most that one unit moves the sum."""
        return self.range - self.centre

    @property
    def centre(self) -> float:
        """The centre that is taken off the value of every unit; 0 where units are counted."""
        return 0.0 if self.kind == "size" else self.range / 2

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws the units to look at."""
        return EveryoneSampler() if self.rate is None else PoissonSampler(self.rate)

    @property
    def event(self) -> Event:
        """The event of one purchase."""
        return self.sampler.event(Gaussian(self.noise, KINDS[self.kind]))

    def value(self, noisy_sum: float, units: float) -> float:
        """The metric from the noisy sum; `units` is the declared number of units, or the noisy one."""
        if self.kind == "size":
            return noisy_sum
        return self.centre + noisy_sum / (max(1.0, units) * (1.0 if self.rate is None else self.rate))

    def deviation(self, units: float, share: float = 1.0, size: Metric | None = None) -> float:
        """An upper bound on the metric's standard deviation, from its noise and from the random number of units looked
        at.

        `units` is the declared number before sampling at `rate`, a `share` of all units. A unit is looked at with
        probability p = share x rate: m units on average, with variance m (1 - p), each adding at most half the range.
        If the `size` was bought, the sampling at `rate` and the noise of the size take the place of that.
        """
        if self.kind == "size":
            return self.noise
        rate = 1.0 if self.rate is None else self.rate
        expected = units * rate
        chance = (1 - (share if size is None else 1.0) * rate) / expected
        of_size = 0.0 if size is None else size.noise / units
        return self.contribution * math.hypot(self.noise / expected, math.sqrt(chance), of_size)


class Counts(Frozen):
    """Counts of correct predictions on private training rows, bought after each phase for the policy.

    A count gets Gaussian noise of standard deviation `noise`; one row changes it by at most 1. `rate`: each row is
    looked at with this probability; by default all are. Each count is charged as one more event.
    """

    noise: Positive = 100.0
    rate: Rate | None = None

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws the rows to look at."""
        return EveryoneSampler() if self.rate is None else PoissonSampler(self.rate)

    @property
    def event(self) -> Event:
        """The event of one count."""
        return self.sampler.event(Gaussian(self.noise, Query.COUNT))


def size_for(metric: Metric, metrics: Sequence[Metric]) -> Metric | None:
    """The size metric that is bought on the rows of `metric`; None if there is none."""
    return next((other for other in metrics if other.kind == "size" and other.rows == metric.rows), None)


def check_metrics(metrics: Sequence[Metric], *, holdout: bool, period: int) -> None:
    """Refuse two metrics with one name, hold-out metrics without a hold-out, and purchases inside a period of the
    sampler."""
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise InputError(f"a metric is bought twice: {', '.join(names)}; keep one of each name")
    if not holdout and any(metric.rows == "holdout" for metric in metrics):
        raise InputError("a metric is on held-out rows, but none are held out; give holdout, a share of the rows")
    if holdout and not any(metric.rows == "holdout" for metric in metrics):
        raise InputError("rows are held out for nothing; buy a metric with rows='holdout', or leave out holdout")
    for metric in metrics:
        if metric.kind == "size" and not any(m.rows == metric.rows and m.kind != "size" for m in metrics):
            raise InputError(f"{metric.name} is bought for nothing; buy another metric on the same rows")
    inside = next((m.every for m in metrics if m.every is not None and m.every % period), None)
    if inside is not None:
        raise InputError(f"a metric every {inside} steps falls inside a period of {period} steps; take a multiple")
