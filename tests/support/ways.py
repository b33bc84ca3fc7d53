"""Every way to draw batches and every way to clip, for runs on tiny data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping import private_parameters
from discreet.plan import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    NoSampling,
    PoissonSampling,
    Sampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

SAMPLINGS: dict[str, Callable[[int], Sampling]] = {
    "poisson": lambda units: PoissonSampling(rate=0.3),
    "poisson, nobody": lambda units: PoissonSampling(rate=1e-9),
    "truncated": lambda units: TruncatedPoissonSampling(rate=0.5, capacity=max(1, units // 3)),
    "fixed": lambda units: FixedSizeSampling(batch=units // 3),
    "shuffle": lambda units: ShuffleSampling(batch=units // 2),
    "allocation": lambda units: AllocationSampling(period=3, chosen=1),
    "cyclic": lambda units: CyclicPoissonSampling(rate=0.7, coefficients=(5, 3, 2)),
    "none": lambda units: NoSampling(),
}

WAYS: dict[str, Any] = {
    "scheduled": {"kind": "scheduled", "phases": [{"norm": 2.0, "steps": 3}, {"norm": 0.5, "steps": 4}]},
    "automatic": {"kind": "automatic"},
    "per_layer": {"per_layer": 0.5},
    "groups": {"groups": {"weight": 1.0, "bias": 0.5}},
    "adaptive": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 6.0},
    "ellipsoid": {"kind": "ellipsoid"},
    "box": {"kind": "box"},
}


def scales(model: nn.Module, size: float = 1.0) -> dict[str, Tensor]:
    return {
        name: size * (1.0 + torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape))
        for name, parameter in private_parameters(model).items()
    }
