"""The plan: every public fact that privacy depends on, in one frozen value; and policies for adaptive runs.

Plans are loaded on first use, because they read the registered samplers and clip rules when they are imported.
"""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use
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
from discreet.sampling import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    IndividualSampling,
    NoSampling,
    PoissonSampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

if TYPE_CHECKING:
    from discreet.plan.adaptive.adaptive_plan import AdaptivePlan as AdaptivePlan
    from discreet.plan.adaptive.agd_budget import agd_plan as agd_plan
    from discreet.plan.adaptive.history import Controls as Controls
    from discreet.plan.adaptive.history import History as History
    from discreet.plan.adaptive.history import Phase as Phase
    from discreet.plan.adaptive.line_search import LineSearch as LineSearch
    from discreet.plan.adaptive.policies import BatchByProgress as BatchByProgress
    from discreet.plan.adaptive.policies import Constant as Constant
    from discreet.plan.adaptive.policies import Custom as Custom
    from discreet.plan.adaptive.policies import NoiseByProgress as NoiseByProgress
    from discreet.plan.adaptive.policies import ValidationDecay as ValidationDecay
    from discreet.plan.clipping import AnyClipping as AnyClipping
    from discreet.plan.fixed import NoisePhase as NoisePhase
    from discreet.plan.holdout import Holdout as Holdout
    from discreet.plan.metrics import Counts as Counts
    from discreet.plan.metrics import Metric as Metric
    from discreet.plan.noise_on_mean import mean_noise as mean_noise
    from discreet.plan.noise_on_mean import mean_noises as mean_noises
    from discreet.plan.plan import Plan as Plan
    from discreet.plan.sampling import Sampling as Sampling
    from discreet.plan.tuning.disjoint_parts import PartsSearch as PartsSearch
    from discreet.plan.tuning.random_stopping import Search as Search

_HOMES = {
    "AdaptivePlan": ".adaptive.adaptive_plan",
    "agd_plan": ".adaptive.agd_budget",
    **dict.fromkeys(("Controls", "History", "Phase"), ".adaptive.history"),
    "LineSearch": ".adaptive.line_search",
    **dict.fromkeys(
        ("BatchByProgress", "Constant", "Custom", "NoiseByProgress", "ValidationDecay"), ".adaptive.policies"
    ),
    "AnyClipping": ".clipping",
    "NoisePhase": ".fixed",
    "Holdout": ".holdout",
    **dict.fromkeys(("mean_noise", "mean_noises"), ".noise_on_mean"),
    **dict.fromkeys(("Counts", "Metric"), ".metrics"),
    "Plan": ".plan",
    "Sampling": ".sampling",
    "PartsSearch": ".tuning.disjoint_parts",
    "Search": ".tuning.random_stopping",
}

__all__ = [
    *_HOMES,
    "AdaptiveClipping",
    "AutomaticClipping",
    "BoxClipping",
    "EllipsoidClipping",
    "FlatClipping",
    "GroupClipping",
    "PerLayerClipping",
    "ScheduledClipping",
    "AllocationSampling",
    "CyclicPoissonSampling",
    "FixedSizeSampling",
    "IndividualSampling",
    "NoSampling",
    "PoissonSampling",
    "ShuffleSampling",
    "TruncatedPoissonSampling",
]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
