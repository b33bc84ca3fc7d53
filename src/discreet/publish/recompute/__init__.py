"""Recompute the privacy claim of a certificate, independently of the code that made it.

    events (JSON) -> parts -> losses (grid, from above and below) -> compose (Fourier) -> bounds -> decide

For a sceptical reviewer: this package imports the standard library, numpy, scipy.special, scipy.fft and the error classes,
and shares no accounting code with the trainer. Covered: compositions and repetitions of Gaussian queries, unsampled under
any adjacency, Poisson-sampled under add_remove and zero_out; whatever else is refused by name.

Assumed of the machine: IEEE double arithmetic; exp, log, expm1 within a few roundings; `ndtr` and `erfcx` as stated where
they are used; the Fourier transform within Higham's bound. A failure of any step gives the interval [0, inf].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from discreet.core.errors import InputError
from discreet.publish.recompute import gaussian, losses
from discreet.publish.recompute.compose import Orders, choose_orders, compose, first_below, last_above
from discreet.publish.recompute.parts import Part, parts, positive

__all__ = ["FINEST", "Bounds", "Decision", "decide", "epsilon_bounds"]

FINEST = 5
"""How often the tolerance is halved before a claim that is still undecided is rejected."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """lower <= the smallest epsilon >= 0 such that the events are (epsilon, delta)-DP <= upper; `grid` = 0: closed form."""

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
    max_grid_points: int = 2**23,
) -> Bounds:
    """A rigorous interval for the epsilon of `events` at `delta`; both ends aim to be within `tolerance` of it.

    | case                                        | answer                          |
    |---------------------------------------------|---------------------------------|
    | no event                                    | [0, 0]                          |
    | unsampled Gaussian queries only             | closed form, to rounding        |
    | the grid would exceed `max_grid_points`     | a coarser grid: wider, valid    |
    | a numerical failure, a tiny noise (< ~0.04) | [0, inf]                        |
    | Poisson under replace_one, unknown events   | InputError that names the event |
    """
    delta, tolerance = positive("delta", delta), positive("tolerance", tolerance)
    if not delta < 1:
        raise InputError(f"delta must be less than 1, got {delta!r}")
    if isinstance(max_grid_points, bool) or not isinstance(max_grid_points, int) or max_grid_points < 1024:
        raise InputError(f"max_grid_points must be a whole number of at least 1024, got {max_grid_points!r}")
    steps = parts(events, adjacency)
    if not steps:
        return Bounds(0.0, 0.0, 0.0)
    with np.errstate(all="ignore"):
        try:
            if steps[0].rate == 1:
                return Bounds(*gaussian.epsilon_bounds(steps[0].mu, delta), 0.0)
            return by_fourier(steps, delta, tolerance, max_grid_points)
        except (ArithmeticError, ValueError, MemoryError):
            return Bounds(0.0, math.inf, 0.0)


def by_fourier(steps: list[Part], delta: float, tolerance: float, max_points: int) -> Bounds:
    """The interval by discretisation: the larger of removal and addition, whose curves are composed separately."""
    total = sum(part.count for part in steps)
    reach = -float(ndtri(max(delta * 1e-7 / total, 1e-250)))
    if not reach + max(part.mu for part in steps) * (1 + losses.MU_ERROR) <= losses.FARTHEST:
        raise ArithmeticError("noise too small for double precision")
    both = [(removal, choose_orders(steps, delta, reach, removal)) for removal in (True, False)]
    spans = [high - low for low, high in (losses.loss_range(part, reach) for part in steps)]
    h = min(_grid(orders, total, tolerance) for _, orders in both)
    h = max(h, *(1.05 * span / max_points for span in (*spans, *(orders.width for _, orders in both))))
    for _ in range(24):
        grid = float(np.float32(h))  # few digits: products with grid indices are exact
        try:
            ends = [_direction(steps, delta, grid, reach, o, removal, tolerance, max_points) for removal, o in both]
        except ArithmeticError:
            h *= 1.5
            continue
        return Bounds(max(0.0, *(low for low, _ in ends)), max(high for _, high in ends), grid)
    raise ArithmeticError("no grid fits")


def _grid(orders: Orders, total: int, tolerance: float) -> float:
    """The spread adds about (tilt + 1) k h^2 / 12 to epsilon (second order in h): half the tolerance is given to it."""
    return min(math.sqrt(6 * tolerance / (total * (orders.tilt + 1))), 0.5 / (orders.tilt + 1))


def _direction(
    steps: list[Part],
    delta: float,
    h: float,
    reach: float,
    orders: Orders,
    removal: bool,
    tolerance: float,
    max_points: int,
) -> tuple[float, float]:
    """(lower, upper) for one direction."""
    over = [(losses.above(part, h, reach, removal), part.count) for part in steps]
    under = [(losses.below(part, h, reach, removal), part.count) for part in steps]
    precision = tolerance / 64
    upper = first_below(compose(over, h, orders, +1, max_points), delta, orders, precision)
    lower = last_above(compose(under, h, orders, -1, max_points), delta, orders, precision)
    # A clipped loss is off by at most `slip` in each step.
    upper += 1.01 * sum(count * loss.slip for loss, count in over)
    lower -= 1.01 * sum(count * loss.slip for loss, count in under)
    if not lower <= upper:
        raise ValueError("the bounds crossed: a numerical failure")
    return lower, upper


def decide(
    events: dict[str, Any] | list[Any], delta: float, adjacency: str, claim: float, *, finest: int = FINEST
) -> Decision:
    """Accept iff claim >= upper; reject if claim < lower; else halve the tolerance, at most `finest` times, then reject."""
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not 0 <= claim < math.inf:
        raise InputError(f"claim must be finite and at least 0, got {claim!r}")
    tolerance = max(2e-3 * claim, 1e-5) / 2
    for level in range(finest + 1):
        bounds = epsilon_bounds(events, delta, adjacency, tolerance=tolerance / 2**level)
        if claim >= bounds.upper:
            return Decision(
                True, bounds, f"claim {claim:.6g} is at least the recomputed upper bound {bounds.upper:.6g}"
            )
        if claim < bounds.lower:
            return Decision(False, bounds, f"claim {claim:.6g} is below the proved lower bound {bounds.lower:.6g}")
    return Decision(
        False, bounds, f"claim {claim:.6g} is not supported: the recomputed upper bound is {bounds.upper:.6g}"
    )
