"""The plan: every public fact that privacy depends on, in one frozen value."""

from discreet.plan.plan import FlatClipping, NoisePhase, Plan
from discreet.plan.sampling import (
    AllocationSampling,
    FixedSizeSampling,
    NoSampling,
    PoissonSampling,
    Sampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

__all__ = [
    "AllocationSampling",
    "FixedSizeSampling",
    "FlatClipping",
    "NoSampling",
    "NoisePhase",
    "Plan",
    "PoissonSampling",
    "Sampling",
    "ShuffleSampling",
    "TruncatedPoissonSampling",
]
