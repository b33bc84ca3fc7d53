"""From a pair of distributions to a privacy loss on a grid: one that dominates it, one that it dominates.

Bounds rest on two facts about delta(eps) = E_P[(1 - exp(eps - loss))_+] and its compositions:

- *Splitting* an outcome into two that keep its P- and Q-mass makes the pair only more revealing (the
  original is recovered by forgetting which of the two it was); *merging* outcomes makes it less.
- delta grows when P-mass moves to a larger loss or is added, and shrinks when it moves down or is dropped.

The first gives second-order accuracy in the grid, the second absorbs every rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.pair import UNIT_ROUNDOFF, Bins, Pair, bins
from discreet.core.arrays import Array, BoolArray

_PHASES = tuple(i / 16 for i in range(16))
_TRIAL_BINS = 256


@dataclass(frozen=True, slots=True)
class LossPmf:
    """P-mass of the privacy loss: `masses[j]` at loss `(first + j) * grid + offset`, `infinity` at infinity.

    `slack` bounds how far rounding of bin edges may have moved any loss of one release.
    """

    grid: float
    first: int
    masses: Array
    infinity: float
    slack: float
    offset: float = 0.0

    @property
    def losses(self) -> Array:
        """The grid points, shape (len(masses),)."""
        result: Array = np.arange(self.first, self.first + len(self.masses)) * self.grid + self.offset
        return result


def loss_range(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> tuple[int, int]:
    """Indices (low, high) of grid points that enclose all losses but those of at most `tail` mass a side.

    Losses below `floor` are left out too. Where the loss is bounded, the enclosing point costs nothing.
    """
    ends = pair.loss(np.array(pair.support(tail)))
    low, high = max(float(ends.min()), min(floor, float(ends.max()))), float(ends.max())
    return math.floor(low / grid) - 1, math.ceil(high / grid) + 1


def pessimistic(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> LossPmf:
    """The dominating loss on the grid ("connect the dots", Doroshenko et al. 2022).

    The mass (p, q) of the bin from a to b is split between its ends so that both masses are kept; the end b
    gets the share (1 - e^a q/p) / (1 - e^-h) of p. The share is rounded up, p is rounded up, what lies below
    the range is moved up to it, and what lies above becomes infinity mass.
    """
    low, high = loss_range(pair, grid, tail, floor)
    edges = np.arange(low, high + 1) * grid
    slack = pair.loss_rounding(float(np.abs(edges).max()))
    cut = bins(pair, edges)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(edges[:-1] + np.log(cut.q) - np.log(cut.p)) / math.expm1(-grid)
        # An outcome up to `slack` outside its bin needs a share that is larger by slack over the bin's width.
        relative = cut.p_error / cut.p + cut.q_error / cut.q + _log_rounding(edges[:-1]) + slack
        share += 2 * relative / -math.expm1(-grid)
    share = np.where(np.isfinite(share), np.clip(share, 0, 1), 1.0)
    p = cut.p + cut.p_error
    masses = np.zeros(len(edges))
    masses[1:] = p * share
    masses[:-1] += p * (1 - share)
    masses[0] += cut.below
    masses *= 1 + 8 * UNIT_ROUNDOFF
    return LossPmf(grid, low, masses, cut.above, slack)


def optimistic(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> LossPmf:
    """A dominated loss on the grid, second-order accurate like `pessimistic`.

    Bin i is merged into one outcome, of mass p_i at loss m_i = log(p_i / q_i). The grid g_i = i h + offset is
    laid through the heaviest of them (at low rates nearly all mass sits there); the others are near it. Where
    m_i < g_i, a little of the next bin's outcome is merged in to lift it to g_i; where m_i > g_i, a little of the
    bin before may be merged in without falling below g_i. Either way the merged loss is at least g_i, and is
    placed there. A bin that cannot be lifted is moved down to g_(i-1). At low rates most of the mass sits within
    a few bins of the end of the range; how well they fare depends on where in the grid that end falls, so a few
    phases are tried on the bins around the bulk.
    """
    low, high = loss_range(pair, grid, tail, floor)
    bulk = math.floor(float(pair.loss(np.zeros(1))[0]) / grid)
    start = min(max(low, bulk - _TRIAL_BINS), high - 2)
    end = max(min(high, bulk + _TRIAL_BINS), start + 2)
    lost = [_merge(pair, grid, start, end, phase)[1] for phase in _PHASES]
    return _merge(pair, grid, low, high, _PHASES[int(np.argmin(lost))])[0]


def _merge(pair: Pair, grid: float, low: int, high: int, phase: float) -> tuple[LossPmf, float]:
    """The dominated loss for bins from (low - phase) x grid to (high - phase) x grid, and how much mean loss
    was given up by placing merged bins on the grid."""
    edges = (np.arange(low, high + 1) - phase) * grid
    cut = bins(pair, edges)
    p = np.maximum(cut.p - cut.p_error, 0.0)
    excess = _merged_excess(cut, p, (np.arange(low, high) + 0.5 - phase) * grid)
    offset = float(excess[np.argmax(p)])
    excess -= offset
    from_next, from_previous, liftable = _transfers(p, excess, grid)
    kept = p.copy()
    kept[1:] -= from_next[:-1]
    kept[:-1] -= from_previous[1:]
    stays = liftable | (excess >= 0)
    masses = np.where(stays, kept, 0.0) + from_next + from_previous
    masses[:-1] += np.where(stays, 0.0, kept)[1:]
    steps = np.arange(len(p)) * grid
    lost = float(p @ np.where(p > 0, excess + steps, 0.0) - masses @ steps)
    masses = np.maximum(masses * (1 - 16 * UNIT_ROUNDOFF), 0.0)
    slack = pair.loss_rounding(float(np.abs(edges).max()))
    return LossPmf(grid, low, masses, 0.0, slack, offset + (0.5 - phase) * grid), lost


def _merged_excess(cut: Bins, p: Array, points: Array) -> Array:
    """Lower bound on m_i - g_i, the merged loss of each bin relative to its centre; -inf for empty bins.

    The merged loss lies in its bin, whatever rounding says, so the bound is never below half a grid step.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.log(p) - np.log(cut.q + cut.q_error) - points
    excess -= _log_rounding(points)
    half = 0.5 * (points[1] - points[0])
    return np.where(p > 0, np.clip(excess, -half, half), -np.inf)


def _transfers(p: Array, excess: Array, grid: float) -> tuple[Array, Array, BoolArray]:
    """Mass that each grid point takes from the next bin, from the previous one, and where lifting works.

    Merging k at ratio r = e^-(m - g) with t at ratio r' gives at least g iff k r + t r' <= k + t, so lifting
    takes t = k (r - 1) / (1 - r') at least, and taking low losses in allows t = k (1 - r) / (r' - 1) at most.
    k is what the bin has left after giving: at most p_i for the first, and for the second p_i less the most
    that the neighbours may take. Transfers are capped at a quarter of the giving bin, so none is overdrawn.
    """
    ratio = np.exp(-excess)
    next_ratio = np.append(ratio[1:], np.inf) * math.exp(-grid)
    previous_ratio = np.insert(ratio[:-1], 0, np.inf) * math.exp(grid)
    next_p, previous_p = np.append(p[1:], 0.0), np.insert(p[:-1], 0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = p * (1 + 8 * UNIT_ROUNDOFF) * (ratio - 1) / (1 - next_ratio)
        room = (1 - 8 * UNIT_ROUNDOFF) * (1 - ratio) / (previous_ratio - 1)
    liftable = (ratio > 1) & (next_ratio < 1) & (lift <= 0.25 * next_p)
    from_next = np.where(liftable, lift, 0.0)
    room = np.where((ratio < 1) & (previous_ratio > 1), room, 0.0)
    most_taken = np.insert(from_next[:-1], 0, 0.0) + np.append(np.minimum(room * p, 0.25 * previous_p)[1:], 0.0)
    from_previous = np.minimum(room * (p - most_taken), 0.25 * previous_p)
    return from_next, from_previous, liftable


def _log_rounding(losses: Array) -> Array:
    return 16 * UNIT_ROUNDOFF * (1 + np.abs(losses))
