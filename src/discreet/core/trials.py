"""How often a search tries before the best trial is taken: the secret number K has one of these laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core import checks
from discreet.core.errors import InputError


@dataclass(frozen=True, slots=True)
class NegativeBinomialTrials:
    """The truncated negative binomial law: K >= 1 (Papernot and Steinke 2022, Definition 1).

    `shape` eta > -1 and `success` gamma in (0, 1). Shape 1 is the geometric law, shape 0 the logarithmic one. The
    generating function E[x^K] has the derivative `mean` x gamma^(eta + 1) / (1 - (1 - gamma) x)^(eta + 1).
    """

    shape: float
    success: float

    def __post_init__(self) -> None:
        shape = checks.real("shape", self.shape)
        if not (-1 < shape < math.inf):
            raise InputError(f"shape must be finite and greater than -1, got {shape!r}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "success", checks.open_unit("success", self.success))

    @property
    def mean(self) -> float:
        """E[K] = eta (1 - gamma) / (gamma (1 - gamma^eta)), or (1/gamma - 1) / log(1/gamma) at shape 0."""
        log = math.log(self.success)
        # eta / (1 - gamma^eta) tends to 1 / log(1/gamma)
        ratio = self.shape / -math.expm1(self.shape * log) if abs(self.shape * log) > 1e-12 else -1 / log
        return (1 / self.success - 1) * ratio


@dataclass(frozen=True, slots=True)
class PoissonTrials:
    """The Poisson law with mean `mean`: K may be 0, and then nothing is chosen."""

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", checks.positive("mean", self.mean))


Trials = NegativeBinomialTrials | PoissonTrials


def trials_to_json(trials: Trials) -> dict[str, Any]:
    """JSON-ready fields under a published name; `trials_from_json` is the inverse."""
    match trials:
        case NegativeBinomialTrials(shape, success):
            return {"law": "truncated_negative_binomial", "shape": shape, "success": success}
        case PoissonTrials(mean):
            return {"law": "poisson", "mean": mean}


def trials_from_json(data: object) -> Trials:
    """Decode what `trials_to_json` made; anything else is an `InputError`."""
    match data:
        case {"law": "truncated_negative_binomial", "shape": shape, "success": success, **more} if not more:
            return NegativeBinomialTrials(shape, success)
        case {"law": "poisson", "mean": mean, **more} if not more:
            return PoissonTrials(mean)
    shown = data.get("law") if isinstance(data, Mapping) else data
    raise InputError(
        f"unknown law of trials {shown!r}; known: truncated_negative_binomial (shape, success), poisson (mean)"
    )
