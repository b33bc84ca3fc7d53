"""Policies: (number of the phase, public history) -> the controls of its steps, or None to end the run.

A policy is called when a phase begins and at no other time. The controls it returns are checked and priced before any
data is read for them, and the filter decides whether they may be used. So a policy may be any function, and no
guarantee depends on it:

    def policy(phase, history):
        better = phase > 0 and history.phases[-1].metrics["accuracy"] > 0.9
        return None if better else history.controls

The policies here are pure functions of the history, so a resumed run goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from discreet.core.errors import InputError
from discreet.plan.adaptive.history import Controls, History, Phase
from discreet.plan.adaptive.line_search import LineSearch
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive

Function = Callable[[int, History], Controls | None]

Seen = Literal["accuracy", "count", "training_accuracy", "holdout_accuracy"]
"""What a policy may look at: the accuracy on public data, bought counts, or a metric that is bought."""


class Constant(Frozen):
    """The controls that the plan starts from, until the budget is spent."""

    kind: Literal["constant"] = "constant"

    def __call__(self, phase: int, history: History) -> Controls | None:
        return history.controls

    @property
    def metric(self) -> str | None:
        """The name of the figure that the policy looks at; None if it looks at none."""
        return None


class ValidationDecay(Frozen):
    """The noise falls by `factor` when a metric stops improving: Yu et al. 2019, equations 8 to 10.

    Every `period` phases the average of the metric over the last `average` phases is compared with that of the
    comparison before (0 at first). If it rose by no more than `threshold`, the noise multiplier is multiplied by
    `factor`, but never falls below `floor`. The metric is the accuracy on public validation data; "count" takes bought
    counts of correct predictions, "holdout_accuracy" and "training_accuracy" the metrics of these names that the plan
    buys.
    """

    kind: Literal["validation_decay"] = "validation_decay"
    threshold: Annotated[float, Field(ge=0)] = 0.01
    average: Count = 5
    period: Count = 10
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.7
    floor: Annotated[float, Field(ge=0)] = 0.0
    metric: Seen = "accuracy"

    @model_validator(mode="after")
    def _period_covers_the_average(self) -> ValidationDecay:
        if self.period < self.average:
            raise ValueError(f"period must be at least average ({self.average}), got {self.period}")
        return self

    def __call__(self, phase: int, history: History) -> Controls | None:
        controls = history.controls
        if phase == 0 or phase % self.period:
            return controls
        before = 0.0 if phase == self.period else self._mean(history.phases[: phase - self.period])
        if self._mean(history.phases[:phase]) - before > self.threshold:
            return controls
        lower = max(self.floor, controls.noise_multiplier * self.factor)
        return replace(controls, noise_multiplier=min(lower, controls.noise_multiplier))

    def _mean(self, phases: Sequence[Phase]) -> float:
        values = [_observed(phase, self.metric) for phase in phases[-self.average :]]
        return sum(values) / len(values)


class _Progress(Frozen):
    """The common part of both policies of Lecuyer 2021, section 5.1.

    After each phase a Gaussian count of correct predictions on the private training rows is bought. If it rose by at
    least `deviations` standard deviations of its noise, the next phase may cost less, provided that the budget would
    last for more than `epochs` epochs at the present price. Otherwise the next phase costs more, up to the price at the
    start. (The first count is compared with 0.)
    """

    deviations: Positive = 3.0
    epochs: Annotated[float, Field(ge=0)] = 50.0

    @property
    def metric(self) -> str | None:
        """The name of the figure that the policy looks at."""
        return "count"

    def rose(self, history: History) -> bool:
        """Whether the last count is significantly above the one before it."""
        counts = [_observed(phase, "count") for phase in history.phases[-2:]]
        before = counts[-2] if len(counts) > 1 else 0.0
        return counts[-1] - before >= self.deviations * history.count_noise

    def may_save(self, history: History) -> bool:
        """Whether the budget lasts for more than `epochs` epochs, so that phases may become cheaper."""
        return history.epochs_left(history.controls) > self.epochs


class NoiseByProgress(_Progress):
    """The noise rises by `step` while the model learns, and falls when it does not. With `save` False it never rises.

    The least multiplier is `least`, or the one that the plan starts with. (The paper's fine-tuning run starts at 2 with
    least 1 and `save` False.)
    """

    kind: Literal["noise_by_progress"] = "noise_by_progress"
    step: Positive = 0.1
    least: Positive | None = None
    save: bool = True

    def __call__(self, phase: int, history: History) -> Controls | None:
        controls = history.controls
        if phase == 0:
            return controls
        if self.rose(history):
            up = self.step if self.save and self.may_save(history) else 0.0
            return replace(controls, noise_multiplier=round(controls.noise_multiplier + up, 9))
        least = min(history.start.noise_multiplier if self.least is None else self.least, controls.noise_multiplier)
        return replace(controls, noise_multiplier=max(least, round(controls.noise_multiplier - self.step, 9)))


class BatchByProgress(_Progress):
    """Batches shrink by `step` while the model learns, to `least` at least, and grow when it does not."""

    kind: Literal["batch_by_progress"] = "batch_by_progress"
    step: Positive = 128.0
    least: Positive = 256.0

    def __call__(self, phase: int, history: History) -> Controls | None:
        controls, most = history.controls, history.start.expected_batch
        if phase == 0:
            return controls
        if self.rose(history):
            down = self.step if self.may_save(history) else 0.0
            least = min(self.least, controls.expected_batch)
            return replace(controls, expected_batch=max(least, controls.expected_batch - down))
        return replace(controls, expected_batch=min(most, controls.expected_batch + self.step))


class Custom(Frozen):
    """A function of your own. Plans and certificates hold its name and the metric it looks at, never its code."""

    kind: Literal["custom"] = "custom"
    name: str
    metric: Seen | None = None
    function: Function | None = Field(default=None, exclude=True, repr=False)

    def __call__(self, phase: int, history: History) -> Controls | None:
        if self.function is None:
            raise InputError(f"the plan names the policy {self.name!r} but does not hold it; make the plan with it")
        return self.function(phase, history)


AnyPolicy = Constant | ValidationDecay | NoiseByProgress | BatchByProgress | LineSearch | Custom

Policy = Annotated[AnyPolicy, Field(discriminator="kind")]


def as_policy(policy: object) -> AnyPolicy:
    """The policy itself if it is one of the library; any other function as `Custom`, under its name."""
    if isinstance(policy, AnyPolicy):
        return policy
    if not callable(policy):
        raise InputError(f"a policy is a function of (phase, history), got {policy!r:.80}")
    return Custom(name=getattr(policy, "__qualname__", type(policy).__name__), function=policy)


def _observed(phase: Phase, metric: str) -> float:
    value = phase.observed(metric)
    if value is None:
        missing = {"count": "counts", "accuracy": "public validation data"}.get(metric, "such a metric")
        raise InputError(f"the policy looks at {metric!r}, which no phase has; give the run {missing}")
    return value
