"""The plan: every public fact that privacy depends on, in one frozen value; policies for what is chosen on the way."""

from discreet.plan.adaptive import AdaptivePlan, Counts
from discreet.plan.history import History, Knobs, Phase
from discreet.plan.mean_noise import mean_noise
from discreet.plan.plan import FlatClipping, NoisePhase, Plan
from discreet.plan.policies import BatchByProgress, Constant, Custom, NoiseByProgress, ValidationDecay
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
    "AdaptivePlan",
    "AllocationSampling",
    "BatchByProgress",
    "Constant",
    "Counts",
    "Custom",
    "FixedSizeSampling",
    "FlatClipping",
    "History",
    "Knobs",
    "NoSampling",
    "NoiseByProgress",
    "NoisePhase",
    "Phase",
    "Plan",
    "PoissonSampling",
    "Sampling",
    "ShuffleSampling",
    "TruncatedPoissonSampling",
    "ValidationDecay",
    "mean_noise",
]
