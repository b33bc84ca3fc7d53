"""Read (epsilon, delta) off a composed loss, as an upper or a lower bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.compose import Composition
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.core.array_types import Array

_SPAN = 100.0
"""The length of a block of losses: within it exponentials neither overflow nor make a relevant mass vanish."""


@dataclass(frozen=True, slots=True)
class _Tails:
    """Sums over all losses from each grid point on, at the grid points where nothing overflows.

    At grid point j, `p` is the P-mass of losses >= l_j, `q` their Q-mass times e^(l_j), `delta` = p - q, and
    `error` bounds the rounding error of delta.
    """

    losses: Array
    p: Array
    q: Array
    delta: Array
    error: Array
    weight: Array

    @classmethod
    def of(cls, composition: Composition) -> _Tails:
        losses = composition.losses
        keep = losses >= max(0.0, (composition.log_mgf - 600.0) / composition.order)
        losses, tilted = losses[keep], composition.tilted[keep]
        weight = np.exp(composition.log_mgf - composition.order * losses)
        mass = weight * np.maximum(tilted, 0.0)
        p, q = _sum_from(mass), _discounted_sum_from(mass, composition.grid)
        rounding = _relative_rounding(composition, len(losses))
        # The weights are a geometric series, and so are their squares.
        norm = min(math.sqrt(len(losses)), 1 / math.sqrt(-math.expm1(-2 * composition.order * composition.grid)))
        error = rounding * p + 1.01 * norm * composition.error * weight
        return cls(losses, p, q, np.maximum(p - q, 0.0), error, weight)


def epsilon_upper(composition: Composition, delta: float) -> float:
    """An upper bound on the smallest epsilon >= 0 whose delta is at most `delta`; infinite if none is found."""
    tails = _Tails.of(composition)
    constant = composition.infinity + composition.dropped
    fits = np.flatnonzero(tails.delta + tails.error + constant <= delta)
    if len(fits) == 0:
        return math.inf
    j = int(fits[0])
    answer = float(tails.losses[j])
    if j > 0:
        answer = _between(tails, j, delta - constant - float(tails.error[j - 1]), default=answer)
    return answer + composition.slack


def epsilon_lower(composition: Composition, delta: float) -> float:
    """A lower bound on the smallest epsilon >= 0 whose delta is at most `delta`.

    Every delta is first reduced by the mass that wrapped into the window and by its rounding error.
    """
    if not math.isfinite(composition.wrapped):
        return 0.0
    tails = _Tails.of(composition)
    excess = composition.wrapped * tails.weight + tails.error
    exceeds = np.flatnonzero(tails.delta - excess > delta)
    if len(exceeds) == 0:
        return 0.0
    j = int(exceeds[-1])
    answer = float(tails.losses[j])
    if j + 1 < len(tails.losses):
        answer = _between(tails, j + 1, delta + float(excess[j]), default=answer)
    return max(0.0, answer - composition.slack)


def delta_upper(composition: Composition, epsilon: float) -> float:
    """An upper bound on delta(epsilon), at most 1."""
    at = epsilon - composition.slack
    if at < max(composition.losses[0], (composition.log_mgf - 600.0) / composition.order):
        return 1.0
    keep = composition.losses > at
    losses = composition.losses[keep]
    weight = np.exp(composition.log_mgf - composition.order * losses) * -np.expm1(at - losses)
    inside = float(np.sum(weight * np.maximum(composition.tilted[keep], 0.0)))
    error = composition.error * float(np.linalg.norm(weight)) + _relative_rounding(composition, len(losses)) * inside
    total = inside + error + composition.infinity + composition.dropped
    return total if total <= 1 else 1.0


def _sum_from(values: Array) -> Array:
    """The sum from each index to the end, adding the small terms of the tail first."""
    return np.cumsum(values[::-1])[::-1]


def _discounted_sum_from(values: Array, grid: float) -> Array:
    """Sum over i >= j of values[i] e^(-(i - j) grid), block by block so that no exponential overflows."""
    result = np.empty_like(values)
    block = max(1, int(_SPAN / grid))
    carried = 0.0
    for end in range(len(values), 0, -block):
        start = max(0, end - block)
        decay = np.exp(-grid * np.arange(end - start))
        inside = _sum_from(values[start:end] * decay) / decay
        result[start:end] = inside + carried * math.exp(-grid) * decay[::-1]
        carried = float(result[start])
    return result


def _relative_rounding(composition: Composition, terms: int) -> float:
    """Relative rounding error of a weighted sum of `terms` masses: that of the exponents plus that of the summation."""
    reach = float(np.abs(composition.losses[[0, -1]]).max())
    exponents = 32 * UNIT_ROUNDOFF * (4 + abs(composition.log_mgf) + (composition.order + 1) * reach)
    return exponents + 4 * UNIT_ROUNDOFF * terms


def _between(tails: _Tails, j: int, target: float, default: float) -> float:
    """The eps at which p - e^(eps - l_j) q = target in the cell ending at grid point j (delta is linear in e^eps)."""
    p, q = float(tails.p[j]), float(tails.q[j])
    if not (q > 0 and p > target):
        return default
    solution = float(tails.losses[j]) + math.log((p - target) / q)
    return min(float(tails.losses[j]), max(float(tails.losses[j - 1]), solution))


def upper_profile(composition: Composition) -> tuple[Array, Array]:
    """Upper bounds on delta at 0 and at the grid points above it, for a composition rounded up: (epsilons, deltas)."""
    tails = _Tails.of(composition)
    deltas = tails.delta + tails.error + composition.infinity + composition.dropped
    epsilons = np.insert(tails.losses + composition.slack, 0, 0.0)
    return epsilons, np.insert(deltas, 0, delta_upper(composition, 0.0))


def least_tests(composition: Composition) -> tuple[Array, Array]:
    """Tests that exist, for a composition rounded down: (false positive rates, true positive rates).

    Test j calls "in" where the loss is at least l_j. For every real epsilon the true delta is at least that of the
    dominated loss, so the true trade-off function is nowhere above the line through these points. Errors by
    wrapping and rounding lower the true positives and raise the false ones, as does mass beyond the window.
    """
    tails = _Tails.of(composition)
    if not math.isfinite(composition.wrapped):
        return np.zeros(0), np.zeros(0)
    excess = composition.wrapped * tails.weight + tails.error
    shift = np.exp(np.minimum(composition.slack - tails.losses, 700.0))
    beyond = composition.dropped * math.exp(-max(0.0, composition.losses[-1] - composition.slack))
    return (tails.q + tails.error) * shift * (1 + 2.0**-40) + beyond, tails.p - excess
