"""From a pair of distributions to privacy losses on a grid: one that dominates the pair, one that the pair dominates.

Bounds rest on two facts about delta(eps) = E_P[(1 - exp(eps - loss))_+] and its compositions:

- *Splitting* an outcome into two that keep its P- and Q-mass makes the pair only more revealing (forgetting
  which of the two it was recovers the original pair); *merging* outcomes makes the pair less revealing.
- delta grows when P-mass moves to a larger loss or is added, and shrinks when it moves down or is dropped.

The first gives second-order accuracy in the grid, the second absorbs every rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Bins, Pair
from discreet.core.array_types import Array, BoolArray

_PHASES = tuple(i / 16 for i in range(16))
_TRIAL_BINS = 256
_CONCENTRATED = 0.3
"""If no bin holds more mass than this, the phase of the bins in the grid makes no difference."""


@dataclass(frozen=True, slots=True)
class LossPmf:
    """P-mass of the privacy loss: `masses[..., j]` at loss `(first + j) * grid + offset`, `infinity` at infinity.

    `slack` bounds how far rounding of bin edges may have moved any loss of one release. For k releases at once,
    masses have shape (k, m), and infinity, slack and offset shape (k,); all k share `first` and the grid.
    """

    grid: float
    first: int
    masses: Array
    infinity: float | Array
    slack: float | Array
    offset: float | Array = 0.0

    @property
    def losses(self) -> Array:
        """The grid points, of the shape of `masses`."""
        points = np.arange(self.first, self.first + self.masses.shape[-1]) * self.grid
        result: Array = points + np.asarray(self.offset)[..., np.newaxis]
        return result


def loss_range(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> tuple[Array, Array]:
    """Indices (low, high) of grid points that enclose all losses except at most `tail` mass on each side.

    Losses below `floor` are left out too. If the loss is bounded, the enclosing point costs nothing. Both are whole
    numbers, one per release, of the shape of `pair.rate` without its last axis.
    """
    ends = pair.ends(tail)
    top = ends.max(axis=-1)
    low = np.maximum(ends.min(axis=-1), np.minimum(floor, top))
    return np.floor(low / grid) - 1, np.ceil(top / grid) + 1


def pessimistic(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> LossPmf:
    """The dominating loss on the grid ("connect the dots", Doroshenko et al. 2022).

    The mass (p, q) of the bin from a to b is split between its ends so that both masses are kept; the end b
    gets the share (1 - e^a q/p) / (1 - e^-h) of p. Share and p are rounded up; mass below the range is
    moved up to the range, and mass above it becomes infinity mass.
    """
    lows, highs = loss_range(pair, grid, tail, floor)
    low, high = int(np.min(lows)), int(np.max(highs))
    numbers = np.arange(low, high + 1)
    edges = numbers * grid
    slack = pair.loss_rounding(float(np.abs(edges).max()))
    cut = pair.bins(edges)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(edges[:-1] + np.log(cut.q) - np.log(cut.p)) / math.expm1(-grid)
        # An outcome up to `slack` outside its bin needs a share that is larger by slack over the bin's width.
        relative = cut.p_error / cut.p + cut.q_error / cut.q + _log_rounding(edges[:-1]) + slack
        share += 2 * relative / -math.expm1(-grid)
    share = np.where(np.isfinite(share), np.clip(share, 0, 1), 1.0)
    p = cut.p + cut.p_error
    masses = np.zeros((*p.shape[:-1], len(edges)))
    masses[..., 1:] = p * share
    masses[..., :-1] += p * (1 - share)
    masses[..., 0] += cut.below
    # Each release keeps to its own range: mass below moves up to the range, mass above moves to infinity.
    beyond, short = numbers > highs[..., np.newaxis], numbers < lows[..., np.newaxis]
    infinity = cut.above + np.sum(masses, axis=-1, where=beyond)
    masses[numbers == lows[..., np.newaxis]] += np.sum(masses, axis=-1, where=short)
    masses[beyond | short] = 0.0
    masses *= 1 + 8 * UNIT_ROUNDOFF
    return LossPmf(grid, low, masses, infinity * (1 + 2.0**-40), _flat(slack))


def optimistic(pair: Pair, grid: float, tail: float, floor: float = -math.inf) -> LossPmf:
    """A dominated loss on the grid, second-order accurate like `pessimistic`.

    Bin i is merged into one outcome, of mass p_i at loss m_i = log(p_i / q_i). The grid g_i = i h + offset goes
    through the heaviest outcome (at low rates nearly all mass sits there) and near the others. Where
    m_i < g_i, a little of the next bin's outcome is merged in to lift it to g_i; where m_i > g_i, a little of the
    bin before may be merged in without falling below g_i. Either way the merged loss is at least g_i, and is
    placed there. A bin that cannot be lifted is moved down to g_(i-1). At low rates most of the mass sits within
    a few bins of the end of the range. The loss of accuracy there depends on where in the grid that end falls, so
    a few phases are tried on the bins around the bulk.
    """
    lows, highs = loss_range(pair, grid, tail, floor)
    low, high = int(np.min(lows)), int(np.max(highs))
    plain, _ = _merge(pair, grid, np.asarray(low), high - low, np.full((*lows.shape, 1), 0.5))
    if np.any(plain.masses.max(axis=-1) > _CONCENTRATED):
        bulk = np.floor(pair.loss(np.zeros(1)) / grid)
        trial = min(high - low, 2 * _TRIAL_BINS)
        start = np.clip(bulk - _TRIAL_BINS, low, high - trial)
        lost = np.stack([_merge(pair, grid, start, trial, np.full(bulk.shape, phase))[1] for phase in _PHASES])
        phase = np.asarray(_PHASES)[np.argmin(lost, axis=0)][..., np.newaxis]
        plain, _ = _merge(pair, grid, np.asarray(low), high - low, phase)
    numbers = np.arange(low, high)
    plain.masses[(numbers > highs[..., np.newaxis]) | (numbers < lows[..., np.newaxis])] = 0.0
    return plain


def _merge(pair: Pair, grid: float, low: Array, count: int, phase: Array) -> tuple[LossPmf, Array]:
    """The dominated loss for `count` bins from (low - phase) x grid on, and the mean loss that the grid gives up."""
    numbers = low + np.arange(count + 1.0)
    edges = (numbers - phase) * grid
    cut = pair.bins(edges)
    p = np.maximum(cut.p - cut.p_error, 0.0)
    excess = _merged_excess(cut, p, (numbers[..., :-1] + 0.5 - phase) * grid)
    offset = np.take_along_axis(excess, np.argmax(p, axis=-1)[..., np.newaxis], axis=-1)
    excess -= offset
    from_next, from_previous, liftable = _transfers(p, excess, grid)
    kept = p.copy()
    kept[..., 1:] -= from_next[..., :-1]
    kept[..., :-1] -= from_previous[..., 1:]
    stays = liftable | (excess >= 0)
    masses = np.where(stays, kept, 0.0) + from_next + from_previous
    masses[..., :-1] += np.where(stays, 0.0, kept)[..., 1:]
    steps = np.arange(count) * grid
    lost = np.sum(p * np.where(p > 0, excess + steps, 0.0) - masses * steps, axis=-1)
    masses = np.maximum(masses * (1 - 16 * UNIT_ROUNDOFF), 0.0)
    slack = pair.loss_rounding(float(np.abs(edges).max()))
    first = int(low) if np.ndim(low) == 0 else 0
    return LossPmf(grid, first, masses, 0.0, _flat(slack), _flat(offset + (0.5 - phase) * grid)), lost


def _merged_excess(cut: Bins, p: Array, points: Array) -> Array:
    """Lower bound on m_i - g_i, the merged loss of each bin relative to its centre; -inf for empty bins.

    The merged loss lies in its bin despite rounding, so the bound is clipped to half a grid step on either side.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.log(p) - np.log(cut.q + cut.q_error) - points
    excess -= _log_rounding(points)
    half = 0.5 * (points[..., 1:2] - points[..., :1])
    return np.where(p > 0, np.clip(excess, -half, half), -np.inf)


def _transfers(p: Array, excess: Array, grid: float) -> tuple[Array, Array, BoolArray]:
    """The mass that each grid point takes from the next bin and from the previous one, and where lifting works.

    Merging k at ratio r = e^-(m - g) with t at ratio r' gives at least g iff k r + t r' <= k + t, so lifting
    takes t = k (r - 1) / (1 - r') at least, and taking low losses in allows t = k (1 - r) / (r' - 1) at most.
    k is the mass that the bin keeps after giving: at most p_i in the first formula, and in the second p_i less the
    most that the neighbours may take. Transfers are capped at a quarter of the giving bin, so none is overdrawn.
    """
    ratio = np.exp(-excess)
    next_ratio = _shift(ratio, -1, np.inf) * math.exp(-grid)
    previous_ratio = _shift(ratio, 1, np.inf) * math.exp(grid)
    next_p, previous_p = _shift(p, -1), _shift(p, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = p * (1 + 8 * UNIT_ROUNDOFF) * (ratio - 1) / (1 - next_ratio)
        room = (1 - 8 * UNIT_ROUNDOFF) * (1 - ratio) / (previous_ratio - 1)
    liftable = (ratio > 1) & (next_ratio < 1) & (lift <= 0.25 * next_p)
    from_next = np.where(liftable, lift, 0.0)
    room = np.where((ratio < 1) & (previous_ratio > 1), room, 0.0)
    most_taken = _shift(from_next, 1) + _shift(np.minimum(room * p, 0.25 * previous_p), -1)
    from_previous = np.minimum(room * (p - most_taken), 0.25 * previous_p)
    return from_next, from_previous, liftable


def _shift(values: Array, places: int, fill: float = 0.0) -> Array:
    """`values` moved by one place along the last axis, up (1) or down (-1), with `fill` in the free place."""
    result = np.full_like(values, fill)
    if places == 1:
        result[..., 1:] = values[..., :-1]
    else:
        result[..., :-1] = values[..., 1:]
    return result


def _flat(values: Array) -> Array:
    """`values` without their last axis, which has length one if there is one."""
    return values[..., 0] if values.ndim else values


def _log_rounding(losses: Array) -> Array:
    return 16 * UNIT_ROUNDOFF * (1 + np.abs(losses))
