"""Adaptive plans on tiny problems."""

from __future__ import annotations

from typing import Any

from problems import blobs

from discreet.plan import AdaptivePlan, Constant, PoissonSampling

VALIDATION = blobs(9, seed=1)


def adaptive(policy: Any = None, sampling: Any = None, **changes: Any) -> AdaptivePlan:
    """Twelve of 24 rows a step, decisions every two epochs (four steps), blocks of three."""
    given: dict[str, Any] = {
        "epsilon": 20.0,
        "delta": 1e-5,
        "population": 24,
        "clip_norm": 1.0,
        "policy": policy or Constant(),
        "noise_multiplier": 3.0,
        "most_steps": 24,
        "every": 2.0,
        "block": 3,
    }
    return AdaptivePlan.make(sampling or PoissonSampling(rate=0.5), **(given | changes))
