"""The plan: every public fact that privacy depends on, in one frozen value; policies for what is chosen on the way."""

from discreet.plan.adaptive.adaptive_plan import AdaptivePlan, Counts
from discreet.plan.adaptive.agd_budget import agd_plan
from discreet.plan.adaptive.history import Controls, History, Phase
from discreet.plan.adaptive.line_search import LineSearch
from discreet.plan.adaptive.policies import BatchByProgress, Constant, Custom, NoiseByProgress, ValidationDecay
from discreet.plan.clip_rules import (
    AdaptiveClipping,
    AutomaticClipping,
    BoxClipping,
    EllipsoidClipping,
    FlatClipping,
    GroupClipping,
    PerLayerClipping,
    ScheduledClipping,
)
from discreet.plan.clipping import AnyClipping
from discreet.plan.fixed import NoisePhase
from discreet.plan.holdout import Holdout
from discreet.plan.mean_noise import mean_noise, mean_noises
from discreet.plan.metrics import Metric
from discreet.plan.plan import Plan
from discreet.plan.sampling import Sampling
from discreet.plan.tuning.disjoint_parts import PartsSearch
from discreet.plan.tuning.random_stopping import Search
from discreet.sampling import (
    AllocationSampling,
    FixedSizeSampling,
    NoSampling,
    PoissonSampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

__all__ = [
    "AdaptiveClipping",
    "AdaptivePlan",
    "AllocationSampling",
    "AnyClipping",
    "AutomaticClipping",
    "BatchByProgress",
    "BoxClipping",
    "Constant",
    "Controls",
    "Counts",
    "Custom",
    "EllipsoidClipping",
    "FixedSizeSampling",
    "FlatClipping",
    "GroupClipping",
    "History",
    "Holdout",
    "LineSearch",
    "Metric",
    "NoSampling",
    "NoiseByProgress",
    "NoisePhase",
    "PartsSearch",
    "PerLayerClipping",
    "Phase",
    "Plan",
    "PoissonSampling",
    "Sampling",
    "ScheduledClipping",
    "Search",
    "ShuffleSampling",
    "TruncatedPoissonSampling",
    "ValidationDecay",
    "agd_plan",
    "mean_noise",
    "mean_noises",
]
