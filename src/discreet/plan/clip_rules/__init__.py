"""Clip rules, one file each, as plan.yaml holds them.

| kind      | each unit's gradient                            | sensitivity of the sum                          |
|-----------|-------------------------------------------------|-------------------------------------------------|
| flat      | scaled down to length `norm` at most            | norm                                            |
| scheduled | the same, with a norm for each step             | that of the step                                |
| automatic | scaled by norm / (length + gamma)               | norm                                            |
| per_layer | each module's parameters to `norm`              | norm x sqrt(modules that own parameters)        |
| groups    | each group of parameters to its norm            | root of the sum of the squared norms            |
| adaptive  | scaled down to C_t, which follows a quantile    | C_t / sqrt(1 - (z/s)^2): see `AdaptiveClipping` |
| ellipsoid | divided by public scales, then scaled to `norm` | norm, in units of the scales                    |
| box       | each number clipped to its public scale         | sqrt(numbers), in units of the scales           |
"""

from discreet.plan.clip_rules.adaptive import AdaptiveClipping
from discreet.plan.clip_rules.automatic import AutomaticClipping
from discreet.plan.clip_rules.base import CLIP_RULES, ClipRule, StepClip, register
from discreet.plan.clip_rules.box import BoxClipping
from discreet.plan.clip_rules.ellipsoid import EllipsoidClipping
from discreet.plan.clip_rules.flat import FlatClipping
from discreet.plan.clip_rules.grouped import GroupClipping
from discreet.plan.clip_rules.per_layer import PerLayerClipping
from discreet.plan.clip_rules.scheduled import ScheduledClipping

__all__ = [
    "CLIP_RULES",
    "AdaptiveClipping",
    "AutomaticClipping",
    "BoxClipping",
    "ClipRule",
    "EllipsoidClipping",
    "FlatClipping",
    "GroupClipping",
    "PerLayerClipping",
    "ScheduledClipping",
    "StepClip",
    "register",
]

for _rule in (
    FlatClipping,
    ScheduledClipping,
    AutomaticClipping,
    PerLayerClipping,
    GroupClipping,
    AdaptiveClipping,
    EllipsoidClipping,
    BoxClipping,
):
    register(_rule)
