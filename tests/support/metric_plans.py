"""Plans that buy metrics."""

from __future__ import annotations

from typing import Any

from discreet.plan import (
    AdaptivePlan,
    Constant,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
)


def unsampled(steps: int, metrics: list[Metric]) -> Plan:
    """Everyone in every step, whose price is one exact Gaussian's; blocks of three steps."""
    figures: dict[str, Any] = {"population": 24, "clip_norm": 1.0, "delta": 1e-5, "noise_multiplier": 3.0}
    return Plan.make(NoSampling(), steps=steps, metrics=metrics, **figures).model_copy(update={"block": 3})


def adaptive(policy: Any = None, **changes: Any) -> AdaptivePlan:
    given: dict[str, Any] = {
        "epsilon": 20.0,
        "delta": 1e-5,
        "population": 24,
        "clip_norm": 1.0,
        "policy": policy or Constant(),
        "noise_multiplier": 3.0,
        "most_steps": 24,
        "every": 2.0,
    }
    return AdaptivePlan.make(PoissonSampling(rate=0.5), **(given | changes))
