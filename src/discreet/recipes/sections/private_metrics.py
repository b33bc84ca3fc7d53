"""The section of private metrics, and how exact they can be without a higher epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, Repeat
from discreet.plan import Metric
from discreet.plan.holdout import percent_read
from discreet.plan.metrics import Kind, Part
from discreet.plan.pydantic_base import Frozen, validate
from discreet.plan.sampling import Count, Positive, Rate
from discreet.plan.timeline import purchases_of

_LEFT_FREE = 1 - 2e-3
"""Hold-out metrics may cost this part of the steps' price."""


Share = Annotated[float, Field(gt=0, lt=1), BeforeValidator(percent_read)]


class RecipeMetric(Frozen):
    """A `Metric` whose noise may be left out if it is on held-out rows; it is then as small as the budget allows."""

    kind: Kind = "accuracy"
    noise: Positive | None = None
    every: Count | None = None
    bound: Positive | None = None
    rows: Part = "training"
    rate: Rate | None = None

    @property
    def name(self) -> str:
        """The name of the metric."""
        return f"{self.rows}_{self.kind}"

    def with_noise(self, noise: float) -> Metric:
        """The metric, with this noise where it has none."""
        return validate(Metric, self.model_dump() | {"noise": self.noise or noise}, "recipe: metrics")


def priced(
    metrics: Sequence[RecipeMetric],
    *,
    steps: int,
    epsilon: float | None,
    delta: float,
    adjacency: Adjacency,
    sizes: bool = True,
    before: tuple[Event, ...] = (),
) -> tuple[Metric, ...]:
    """The metrics with their noise.

    A row is either trained on or held out. So hold-out metrics raise no epsilon as long as they cost no more than the
    steps: where noise is left out, it is the least for which that holds. The number of held-out rows is then bought as
    well, because its randomness would outweigh the noise; except with `sizes` false, where values are only compared
    with each other and share that randomness. Queries `before` the steps are about all rows, so metrics get the rest of
    the budget.
    """
    left_out = [metric for metric in metrics if metric.noise is None]
    if not left_out:
        return tuple(metric.with_noise(1.0) for metric in metrics)
    if sizes and not any((metric.rows, metric.kind) == ("holdout", "size") for metric in metrics):
        metrics = (*metrics, RecipeMetric(kind="size", rows="holdout"))
    if any(metric.rows == "training" for metric in left_out):
        raise InputError("recipe: a metric on training rows needs noise: what it costs, the steps cannot have")
    if epsilon is None or adjacency is Adjacency.REPLACE_ONE:
        raise InputError("recipe: a metric needs noise here (only under epsilon, add_remove or zero_out it is found)")

    def event(noise: float) -> Event:
        made = [metric.with_noise(noise) for metric in metrics if metric.rows == "holdout"]
        return Compose((*before, *(Repeat(metric.event, purchases_of(metric, steps)) for metric in made)))

    noise, _ = calibrate_noise(event, _LEFT_FREE * epsilon, delta * (1 - 1e-8), adjacency)
    return tuple(metric.with_noise(noise) for metric in metrics)
