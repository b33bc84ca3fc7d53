"""Metrics on private rows, which are bought: further Gaussian releases of a run, priced like its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian
from discreet.plan.sampling import Count, Rate
from discreet.plan.validation import Frozen
from discreet.sampling import EveryoneSampler, PoissonSampler, Sampler

Positive = Annotated[float, Field(gt=0)]

Part = Literal["training", "holdout"]
"""Rows to train on, or held out."""

_QUERIES = {"accuracy": Query.CENTRED_BIT, "loss": Query.LOSS}


class Metric(Frozen):
    """A metric of the model on private rows, bought on the way.

    | field | meaning |
    |-------|---------|
    | kind  | `accuracy`, or `loss`: per example, clipped to [0, bound] |
    | noise | the multiplier: noise std / what one unit contributes at most |
    | every | steps between purchases; by default once, at the end (of each phase, in an adaptive run) |
    | bound | where losses are clipped |
    | rows  | `training` or `holdout`: whose rows are looked at |
    | rate  | each of these units is looked at with this probability; by default all are |

    What is summed is centred: right or wrong counts 1/2 or -1/2, a loss counts less half the bound. So one unit moves
    the sum by at most half the range, twice that if it is replaced. The noisy sum is divided by a declared public
    number of units, never by how many there were, and the centre is added again.
    """

    kind: Literal["accuracy", "loss"] = "accuracy"
    noise: Positive
    every: Count | None = None
    bound: Positive | None = None
    rows: Part = "training"
    rate: Rate | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Metric:
        if (self.kind == "loss") != (self.bound is not None):
            raise InputError("a loss needs bound, where the loss of an example is clipped; an accuracy has none")
        return self

    @property
    def name(self) -> str:
        """What policies, early stopping and certificates call it."""
        return f"{self.rows}_{self.kind}"

    @property
    def range(self) -> float:
        """How far apart the largest and the least value of a unit are."""
        return 1.0 if self.bound is None else self.bound

    @property
    def contribution(self) -> float:
        """How far one unit moves the centred sum at most."""
        return self.range / 2

    @property
    def sampler(self) -> Sampler:
        """What draws the units that are looked at."""
        return EveryoneSampler() if self.rate is None else PoissonSampler(self.rate)

    @property
    def event(self) -> Event:
        """What one purchase releases."""
        return self.sampler.event(Gaussian(self.noise, _QUERIES[self.kind]))

    def value(self, noisy_sum: float, units: float) -> float:
        """The metric from the noisy centred sum; `units` is the declared number of units."""
        return self.contribution + noisy_sum / (units * (1.0 if self.rate is None else self.rate))

    def deviation(self, units: float, share: float = 1.0) -> float:
        """The standard deviation of the metric: noise, and that the number of units looked at is random and secret.

        `units` is declared, before sampling at `rate`; they are a `share` of all. A unit is looked at with probability
        p = share x rate, so m of them on average with variance m (1 - p); each adds at most half the range.
        """
        rate = 1.0 if self.rate is None else self.rate
        expected = units * rate
        return self.contribution * math.hypot(self.noise / expected, math.sqrt((1 - share * rate) / expected))


def check_metrics(metrics: Sequence[Metric], *, holdout: bool, period: int) -> None:
    """Refuse metrics with one name, on rows that are not held out, and inside a period of the sampler."""
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise InputError(f"a metric is bought twice: {', '.join(names)}; keep one of each name")
    if not holdout and any(metric.rows == "holdout" for metric in metrics):
        raise InputError("a metric is on held-out rows, but none are held out; give holdout, a share of the rows")
    if holdout and not any(metric.rows == "holdout" for metric in metrics):
        raise InputError("rows are held out for nothing; buy a metric with rows='holdout', or leave out holdout")
    inside = next((m.every for m in metrics if m.every is not None and m.every % period), None)
    if inside is not None:
        raise InputError(f"a metric every {inside} steps falls inside a period of {period} steps; take a multiple")
