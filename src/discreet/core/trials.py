"""Laws of K, the secret number of trials of a search that releases only the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
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
        ratio = self.shape / -math.expm1(self.shape * log) if abs(self.shape * log) > 1e-16 else -1 / log
        return (1 - self.success) / self.success * ratio  # 1 / gamma - 1 would cancel near gamma = 1


@dataclass(frozen=True, slots=True)
class PoissonTrials:
    """The Poisson law with mean `mean`: K may be 0, and then nothing is chosen."""

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", checks.positive("mean", self.mean))


_FARTHEST = 10**6

Trials = NegativeBinomialTrials | PoissonTrials


def fewest(trials: Trials) -> int:
    """The least value of K: 1 for the truncated negative binomial law, 0 for Poisson."""
    return 1 if isinstance(trials, NegativeBinomialTrials) else 0


def first_mass(trials: Trials) -> float:
    """The probability of the least value of K."""
    if not isinstance(trials, NegativeBinomialTrials):
        return math.exp(-trials.mean)
    log = math.log(trials.success)
    if abs(trials.shape * log) < 1e-12:
        return (1 - trials.success) / -log
    return (1 - trials.success) * trials.shape / math.expm1(-trials.shape * log)


def next_ratio(trials: Trials, k: int) -> float:
    """P(K = k + 1) / P(K = k)."""
    if isinstance(trials, NegativeBinomialTrials):
        return (1 - trials.success) * (k + trials.shape) / (k + 1)
    return trials.mean / (k + 1)


def most(trials: Trials, chance: float) -> int:
    """The least k with P(K > k) <= `chance`, capped at 10^6; it depends on the public law alone."""
    k, mass = fewest(trials), first_mass(trials)
    total = mass
    while 1 - total > chance and k < _FARTHEST:
        mass *= next_ratio(trials, k)
        total, k = total + mass, k + 1
    return k


def with_mean(shape: float, mean: float) -> NegativeBinomialTrials:
    """The truncated negative binomial law of this `shape` with E[K] = `mean`, to rounding.

    `InputError` unless 1 < `mean` < 10^6.
    """
    if not 1 < mean < _FARTHEST:
        raise InputError(f"the mean number of trials must be above 1 and below {_FARTHEST}, got {mean!r}")
    if shape == 1:
        return NegativeBinomialTrials(1.0, 1 / mean)
    low, high = -600.0, -1e-12  # log of the success probability; the mean falls as it rises
    for _ in range(200):
        middle = 0.5 * (low + high)
        try:
            above = NegativeBinomialTrials(shape, math.exp(middle)).mean > mean
        except OverflowError:
            above = True
        low, high = (middle, high) if above else (low, middle)
    return NegativeBinomialTrials(shape, math.exp(high))


LAWS: dict[str, type[Trials]] = {
    "truncated_negative_binomial": NegativeBinomialTrials,
    "poisson": PoissonTrials,
}
"""Every law by its published name; an entry never changes."""


def trials_to_json(trials: Trials) -> dict[str, Any]:
    """JSON-ready fields under a published name; `trials_from_json` is the inverse."""
    name = next(name for name, law in LAWS.items() if type(trials) is law)
    return {"law": name} | {one.name: getattr(trials, one.name) for one in fields(trials)}


def trials_from_json(data: object) -> Trials:
    """Decode what `trials_to_json` made; `InputError` for anything else."""
    name = data.get("law") if isinstance(data, Mapping) else data
    law = LAWS.get(name) if isinstance(name, str) else None
    if not isinstance(data, Mapping) or law is None or set(data) != {"law", *(one.name for one in fields(law))}:
        known = ", ".join(f"{name} ({', '.join(one.name for one in fields(law))})" for name, law in LAWS.items())
        raise InputError(f"unknown law of trials {name!r}; known: {known}")
    return law(**{key: value for key, value in data.items() if key != "law"})
