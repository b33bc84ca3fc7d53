"""What a policy may look at: the public settings of finished phases, and what was released or public after each.

A phase is a segment of steps with the same controls. Everything here was released, bought or declared public, so
whatever is computed from it is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.core import checks


@dataclass(frozen=True, slots=True)
class Controls:
    """A policy's decision: noise multiplier and expected batch of the next steps. Both are public."""

    noise_multiplier: float
    expected_batch: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", checks.positive("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "expected_batch", checks.positive("expected_batch", self.expected_batch))


@dataclass(frozen=True, slots=True)
class Phase:
    """A finished phase.

    `end` counts the steps charged when it ended, `metrics` are those on public validation data, `count` is the bought
    noisy count of correct predictions on private rows; None if none was bought. `step_size` is what a line search chose
    after the phase, 0 for staying; None if there was none.
    """

    end: int
    controls: Controls
    metrics: Mapping[str, float] = field(default_factory=dict)
    count: float | None = None
    step_size: float | None = None

    def observed(self, metric: str) -> float | None:
        """A public metric by name, or the bought `count`."""
        return self.count if metric == "count" else self.metrics.get(metric)

    def as_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` is the inverse."""
        controls = [self.controls.noise_multiplier, self.controls.expected_batch]
        seen = {"metrics": dict(self.metrics), "count": self.count, "step_size": self.step_size}
        return {"end": self.end, "knobs": controls, **seen}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Phase:
        """Decode what `as_dict` made."""
        return cls(data["end"], Controls(*data["knobs"]), dict(data["metrics"]), data["count"], data.get("step_size"))


@dataclass(frozen=True, slots=True)
class History:
    """All finished phases, oldest first, and how long the budget would last.

    `start` are the plan's first controls, `count_noise` the standard deviation of the noise of bought counts.
    `epochs_left(controls)`: how many epochs with these controls the filter still has room for, at most those of the
    plan. It depends only on what was charged, which is public.
    """

    phases: tuple[Phase, ...]
    start: Controls
    epochs_left: Callable[[Controls], float]
    count_noise: float = 0.0

    @property
    def controls(self) -> Controls:
        """The controls of the last phase, or those that the plan starts from."""
        return self.phases[-1].controls if self.phases else self.start
