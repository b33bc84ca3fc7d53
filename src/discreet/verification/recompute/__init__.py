"""Recompute the privacy claim of a certificate, independently of the code that made it.

    events (JSON) -> parts -> losses (grid, from above and below) -> compose (Fourier) -> bounds -> decide

For a sceptical reviewer: this package imports the standard library, numpy, scipy.special, scipy.fft and the error
classes, and shares no accounting code with the trainer. Covered: compositions and repetitions of Gaussian queries,
unsampled under any adjacency, on Poisson batches, truncated or not, under add_remove and zero_out, on batches of fixed
size under replace_one, in epochs of disjoint batches under zero_out and replace_one, in randomly allocated steps, on
parts that take turns (cyclic Poisson), and with budgets of single units; of sparse histograms, unsampled. Anything else
is refused by name.

Assumed of the machine: IEEE double arithmetic; exp, log, expm1 within a few roundings; `ndtr` and `erfcx` as stated
where they are used; the Fourier transform within Higham's bound. A failure of any step gives the interval [0, inf].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.core.errors import InputError
from discreet.verification.recompute import allocation, gaussian, poisson_loss, truncated
from discreet.verification.recompute.compose import Orders, chernoff, choose_orders, compose, first_below, last_above
from discreet.verification.recompute.events import Part, Steps, check_claim, parts, positive

__all__ = ["FINEST", "Bounds", "Decision", "decide", "epsilon_bounds"]

FINEST = 5
"""The number of times that the tolerance is halved before a claim that is still undecided is rejected."""

_NEAR = 100
"""Times the root of the tolerance: a grid for it adds less than this to a tiny epsilon. Each of k steps is spread by at
most the width h of the grid, all of them by sqrt(k) h < sqrt(6 tolerance); the rest is room."""

MOST_POINTS, LATER_POINTS = 2**23, 2**21
"""The points that a grid may have, and those that it may have after `FINEST` times: a forger may not have the verifier
compute for minutes what rounding decides."""

LOWER_POINTS = 2**20
"""The lower bound uses a grid up to four times finer than the upper, but at most this many points."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """lower <= the smallest epsilon >= 0 for which the events are (epsilon, delta)-DP <= upper; grid 0: no grid."""

    lower: float
    upper: float
    grid: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a claim is accepted, the last interval computed for it, and why in one sentence."""

    accepted: bool
    bounds: Bounds
    reason: str


def epsilon_bounds(
    events: dict[str, Any] | list[Any],
    delta: float,
    adjacency: str,
    *,
    tolerance: float,
    max_grid_points: int = MOST_POINTS,
) -> Bounds:
    """A rigorous interval for the epsilon of `events` at `delta`; both ends aim to be within `tolerance` of it.

    | case                                        | answer                          |
    |---------------------------------------------|---------------------------------|
    | no event                                    | [0, 0]                          |
    | unsampled Gaussian queries only             | closed form, to rounding        |
    | the grid would exceed `max_grid_points`     | a coarser grid: wider, valid    |
    | a numerical failure, a tiny noise (< ~0.04) | [0, inf]                        |
    | fixed size, epochs, allocation              | an upper bound; lower: what is surely attained |
    | no theorem under the adjacency, unknown     | InputError that names the event |
    """
    delta, tolerance = positive("delta", delta), positive("tolerance", tolerance)
    if not delta < 1:
        raise InputError(f"delta must be less than 1, got {delta!r}")
    if isinstance(max_grid_points, bool) or not isinstance(max_grid_points, int) or max_grid_points < 1024:
        raise InputError(f"max_grid_points must be a whole number of at least 1024, got {max_grid_points!r}")
    steps = parts(events, adjacency)
    if not steps.upper:
        return Bounds(0.0, 0.0, 0.0)
    with np.errstate(all="ignore"):
        try:
            return _bounds(steps, delta, tolerance, max_grid_points)
        except (ArithmeticError, ValueError, MemoryError):
            return Bounds(0.0, math.inf, 0.0)


def _bounds(steps: Steps, delta: float, tolerance: float, max_points: int) -> Bounds:
    """Upper and lower bounds by what each rests on; the upper one pays for truncation out of delta.

    Truncated and untruncated runs differ with probability at most `overflow` on either side, so (epsilon, delta') of
    the one is (epsilon, delta' + (1 + e^epsilon) overflow) of the other. Where that costs much, the losses of truncated
    steps are composed instead (`truncated`). A unit alone in the data is never left out: there truncation changes
    nothing, which is the case that bounds epsilon from below. The probability that sparse histograms
    release a value of one row alone is taken off delta (`parts`).
    """

    def at(point: float) -> Bounds:
        same = steps.upper == steps.lower
        if steps.symmetric and steps.upper[0].rate < 1:
            found = symmetrised(steps.upper, point, tolerance, max_points)
        else:
            found = _directed(steps.upper, point, tolerance, max_points)
            if same:
                return found
        low = _directed(steps.lower, point, tolerance, max_points).lower if steps.lower else 0.0
        return Bounds(min(low, found.upper), found.upper, found.grid)

    found = at(delta)
    if not steps.needs_delta:
        return found
    delta = (delta - steps.escapes) * (1 - 2.0**-50)
    if not delta > 0:
        return Bounds(found.lower, math.inf, 0.0)
    if not steps.overflow > 0:
        return replace(at(delta), lower=found.lower)
    low, reserve, paid = found.lower, 0.0, Bounds(found.lower, math.inf, 0.0)
    for _ in range(12):
        cost = (1 + math.exp(min(found.upper, 700.0))) * steps.overflow * (1 + 2.0**-40)
        if cost <= reserve:
            paid = Bounds(low, found.upper, found.grid)
            break
        reserve = 1.0005 * cost
        if not reserve < delta:
            break
        found = at((delta - reserve) * (1 - 2.0**-50))
    if paid.upper <= 1.02 * low:
        return paid
    other = by_fourier(list(steps.truncated), delta, tolerance, max_points, zero_out=steps.zero_out)
    return Bounds(low, other.upper, other.grid) if other.upper < paid.upper else paid


def _directed(steps: list[Part], delta: float, tolerance: float, max_points: int) -> Bounds:
    if steps[0].rate == 1:
        return Bounds(*gaussian.epsilon_bounds(steps[0].mu, delta), 0.0)
    return by_fourier(steps, delta, tolerance, max_points)


def by_fourier(steps: list[Part], delta: float, tolerance: float, max_points: int, *, zero_out: bool = False) -> Bounds:
    """The interval by discretisation: the larger of removal and addition, whose curves are composed separately.

    Of truncated steps it has the upper end only. `zero_out`: see `truncated`.
    """
    reach = _reach(steps, delta)
    bounds = [(removal, chernoff(steps, delta, reach, removal)) for removal in (True, False)]
    goal = max(0.0, *(float(bound.min()) for _, bound in bounds))
    both = [(removal, choose_orders(steps, reach, removal, bound, goal)) for removal, bound in bounds]
    h, longest = _spacing(steps, [orders for _, orders in both], reach, tolerance, max_points)
    fine = max(h / 4, min(h, 1.05 * longest / min(LOWER_POINTS, max_points)))

    def upper(grid: float, removal: bool, orders: Orders) -> float:
        all_losses = [(_above(part, grid, reach, removal, zero_out), part.count) for part in steps]
        return _smallest(all_losses, grid, orders, delta, tolerance, max_points)

    def lower(grid: float, removal: bool, orders: Orders) -> float:
        all_losses = [(poisson_loss.below(part, grid, reach, removal), part.count) for part in steps]
        curve = compose(all_losses, grid, orders, -1, max_points)
        value = last_above(curve, delta, orders, tolerance / 64) - _slip(all_losses)
        return -math.inf if math.isnan(value) else value

    high, grid = _on_some_grid(lambda grid: max(upper(grid, *direction) for direction in both), h)
    if any(part.filled > 0 for part in steps):
        return Bounds(0.0, high, grid)
    low, _ = _on_some_grid(lambda grid: max(0.0, *(lower(grid, *direction) for direction in both)), fine)
    if not low <= high:
        raise ArithmeticError("the bounds crossed: a numerical failure")
    return Bounds(low, high, grid)


def _above(part: Part, grid: float, reach: float, removal: bool, zero_out: bool) -> poisson_loss.Loss:
    if part.filled > 0:
        return truncated.above(part, grid, reach, removal, zero_out)
    if part.steps > 1:
        return allocation.above(part, grid, float(ndtr(-reach)), removal)
    return poisson_loss.above(part, grid, reach, removal)


def symmetrised(steps: list[Part], delta: float, tolerance: float, max_points: int) -> Bounds:
    """The upper bound for batches of fixed size, each step symmetrised before composing; nothing from below."""
    reach = _reach(steps, delta)
    orders = choose_orders(steps, reach, None, chernoff(steps, delta, reach, None))
    h, _ = _spacing(steps, [orders], reach, tolerance, max_points)

    def upper(grid: float) -> float:
        all_losses = [(poisson_loss.above_symmetric(part, grid, reach), part.count) for part in steps]
        return _smallest(all_losses, grid, orders, delta, tolerance, max_points)

    high, grid = _on_some_grid(upper, h)
    return Bounds(0.0, high, grid)


def _reach(steps: list[Part], delta: float) -> float:
    total = sum(part.count for part in steps)
    reach = -float(ndtri(max(delta * 1e-7 / total, 1e-250)))
    if (
        not reach + max(max(part.mu, part.replaced) for part in steps) * (1 + poisson_loss.MU_ERROR)
        <= poisson_loss.FARTHEST
    ):
        raise ArithmeticError("noise too small for double precision")
    return reach


def _spacing(
    steps: list[Part], all_orders: list[Orders], reach: float, tolerance: float, max_points: int
) -> tuple[float, float]:
    """The grid to start from, and the longest range of losses that it must cover."""
    total = sum(part.count for part in steps)
    spans = [
        high - low
        for part in steps
        for case in (truncated.cases(part) if part.filled > 0 else (part,))
        for low, high in [(allocation if part.steps > 1 else poisson_loss).loss_range(case, reach)]
    ]
    longest = max(*spans, *(orders.width for orders in all_orders))
    return max(min(_grid(orders, total, tolerance) for orders in all_orders), 1.05 * longest / max_points), longest


def _smallest(
    all_losses: list[tuple[poisson_loss.Loss, int]],
    grid: float,
    orders: Orders,
    delta: float,
    tolerance: float,
    max_points: int,
) -> float:
    curve = compose(all_losses, grid, orders, +1, max_points)
    value = first_below(curve, delta, orders, tolerance / 64) + _slip(all_losses)
    return math.inf if math.isnan(value) else value  # max() above may drop a NaN


def _grid(orders: Orders, total: int, tolerance: float) -> float:
    """The spread adds about (tilt + 1) k h^2 / 12 to epsilon (second order in h): half the tolerance is given to it.

    That holds for grids finer than the features of the loss, hence the other two.
    """
    return min(math.sqrt(6 * tolerance / (total * (orders.tilt + 1))), 0.5 / (orders.tilt + 1), max(tolerance, 1e-3))


def _slip(all_losses: list[tuple[poisson_loss.Loss, int]]) -> float:
    """How far the sum of all losses may be off, because the loss at the edge of a bin is off by rounding."""
    return 1.01 * sum(count * loss.slip for loss, count in all_losses)


def _on_some_grid(bound: Callable[[float], float], h: float) -> tuple[float, float]:
    """(bound, grid) at about h, or coarser if the points do not suffice. Every grid is valid."""
    for _ in range(24):
        grid = float(np.float32(h))  # few digits: products with grid indices are exact
        try:
            return bound(grid), grid
        except ArithmeticError:
            h *= 1.5
    raise ArithmeticError("no grid fits")


def decide(
    events: dict[str, Any] | list[Any], delta: float, adjacency: str, claim: float, *, finest: int = FINEST
) -> Decision:
    """Accept iff claim >= upper; reject if claim < lower; else halve the tolerance, `finest` times, then reject. For
    a tiny claim it is first halved until it is a thousandth of the claim, as that of a larger one is from the start;
    but after `finest` times only while the upper bound is as near as a finer grid may bring it down."""
    check_claim(claim)
    if isinstance(finest, bool) or not isinstance(finest, int) or finest < 0:
        raise InputError(f"finest must be a whole number of at least 0, got {finest!r}")
    tolerance, relative = max(2e-3 * claim, 1e-5) / 2, max(2e-3 * claim, 1e-11) / 2
    for level in range(finest + 1 + math.ceil(math.log2(tolerance / relative))):
        points = MOST_POINTS if level <= finest else LATER_POINTS
        bounds = epsilon_bounds(events, delta, adjacency, tolerance=tolerance / 2**level, max_grid_points=points)
        if claim >= bounds.upper:
            return Decision(
                True, bounds, f"claim {claim:.6g} is at least the recomputed upper bound {bounds.upper:.6g}"
            )
        if claim < bounds.lower:
            return Decision(False, bounds, f"claim {claim:.6g} is below the proved lower bound {bounds.lower:.6g}")
        if level >= finest and not bounds.upper <= claim + _NEAR * math.sqrt(tolerance / 2**level):
            break
    return Decision(
        False, bounds, f"claim {claim:.6g} is not supported: the recomputed upper bound is {bounds.upper:.6g}"
    )
