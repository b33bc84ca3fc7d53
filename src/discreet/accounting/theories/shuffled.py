"""Lower bounds for shuffled epochs and for allocation: the success of one known adversary.

All other units contribute the same number, known to the adversary, who decides by the largest noisy batch sum. For
epochs of disjoint batches this is the published bound (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024,
"How private are DP-SGD implementations?", section 4): the unit contributes +1, everyone else -1, so that the sums,
centred, are N(2, s^2) in the unit's batch, N(1, s^2) in that of its null record, and N(0, s^2) elsewhere. For
allocation everyone else contributes nothing: sums are N(1, s^2) in the chosen steps and N(0, s^2) elsewhere, or all
N(0, s^2) without the unit.

Repetitions are independent, and the adversary counts the epochs whose largest sum exceeds a level. So two binomial
laws are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, log_ndtr

from discreet.core.array_types import Array

_LEVELS = 500
_COUNTS = 200
_OUTWARD = 1e-9
"""More than the rounding error of the probabilities, which are sums of up to 1e9 logarithms of nearly 1."""

_MOST_REPETITIONS = 10**6
"""For more repetitions the binomial tail is less precise. The bound from the first 10^6 holds for all."""


def epoch_lower(batches: Sequence[tuple[float, int]], epochs: int, delta: float) -> float:
    """A lower bound on epsilon, under zero-out, of `epochs` epochs over the same batches, (noise, count) each.

    The unit's batch is uniformly random if batches have equal sizes; with unequal noise or a smaller last batch, the
    batch that is worst for the adversary is taken.
    """
    levels = _levels(max(noise for noise, _ in batches), sum(count for _, count in batches), 2.0)
    others = sum((count * log_ndtr(levels / noise) for noise, count in batches), np.zeros_like(levels))

    def exceeds(mean: float) -> list[Array]:
        return [-np.expm1(others - log_ndtr(levels / s) + log_ndtr((levels - mean) / s)) for s, _ in batches]

    present, absent = np.min(exceeds(2.0), axis=0), np.max(exceeds(1.0), axis=0)
    return _best(present, absent, epochs, delta)


def allocation_lower(noise: float, steps: int, chosen: int, periods: int, delta: float) -> float:
    """A lower bound on epsilon of `periods` periods of `steps` steps; a unit is in `chosen` steps of each period."""
    levels = _levels(noise, steps, 1.0)
    elsewhere = log_ndtr(levels / noise)
    present = -np.expm1(chosen * log_ndtr((levels - 1) / noise) + (steps - chosen) * elsewhere)
    return _best(present, -np.expm1(steps * elsewhere), periods, delta)


def _levels(noise: float, batches: int, shift: float) -> Array:
    return np.linspace(0.0, shift + noise * (8 + math.sqrt(2 * math.log(batches + 1))), _LEVELS)


def _best(present: Array, absent: Array, repetitions: int, delta: float) -> float:
    """The largest log((P - delta) / Q) over levels and over numbers of repetitions that exceed a level."""
    repetitions = min(repetitions, _MOST_REPETITIONS)
    least = np.unique(np.linspace(1, repetitions, min(repetitions, _COUNTS)).astype(np.int64))[:, np.newaxis]
    p = betainc(least, repetitions - least + 1, np.maximum(present, 0) * (1 - _OUTWARD)) * (1 - _OUTWARD)
    q = betainc(least, repetitions - least + 1, np.minimum(absent * (1 + _OUTWARD), 1.0)) * (1 + _OUTWARD) + 1e-290
    ratio = np.max(np.where(np.isfinite(p / q), (p - delta) / q, 0.0))
    return max(0.0, math.log(ratio) * (1 - _OUTWARD)) if ratio > 1 else 0.0
