"""What a training was made of, as it was given: to make another like it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from discreet.clipping import Criterion
from discreet.clipping.geometry import Geometry
from discreet.plan import AdaptivePlan, Plan
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.public.public_data import PublicData


@dataclass(frozen=True, slots=True, eq=False)
class Ingredients:
    """The arguments of a `Training`, in records; `engine` names the engine that was chosen."""

    plan: Plan | AdaptivePlan
    model: nn.Module
    criterion: Criterion
    optimizer: torch.optim.Optimizer
    data: object
    public: PublicData
    engine: EngineOptions
    geometry: Geometry | None
