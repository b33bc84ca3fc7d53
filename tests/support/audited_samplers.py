"""Samplers and units of the audits of sound builds, by name, as arguments of a plan."""

from __future__ import annotations

from typing import Any

from discreet.sampling import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    NoSampling,
    PoissonSampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

SAMPLERS: dict[str, dict[str, Any]] = {
    "poisson": {"sampling": PoissonSampling(rate=0.25)},
    "truncated": {"sampling": TruncatedPoissonSampling(rate=0.25, capacity=16)},
    "fixed size": {"sampling": FixedSizeSampling(batch=12), "adjacency": "replace_one"},
    "shuffle": {"sampling": ShuffleSampling(batch=12), "adjacency": "replace_one"},
    "allocation": {"sampling": AllocationSampling(period=4)},
    "cyclic": {"sampling": CyclicPoissonSampling(rate=0.5, coefficients=(3, 2))},
    "all": {"sampling": NoSampling()},
}
UNITS: dict[str, dict[str, Any]] = {"example": {}, "user": {"unit": "user", "rows_per_unit": 2}}
