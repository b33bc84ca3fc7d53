"""Filters for a budget (epsilon, delta): limits on the safe side, and the order that serves a planned course best.

The course is the event that one expects to release. It is public and only decides how far the budget goes: the actual
releases may differ in any way, and the guarantee stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from discreet.accounting.account import parse
from discreet.accounting.adaptive.filters import (
    Conversion,
    Filter,
    GaussianFilter,
    RdpCurveFilter,
    RdpOrderFilter,
    ZcdpFilter,
)
from discreet.accounting.interpret import releases
from discreet.accounting.theories import gdp, rdp, zcdp
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.core.events import Event, tally

F = TypeVar("F", bound=Filter)

TRACKED: tuple[float, ...] = (
    *(1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8),
    *(10, 12, 14, 16, 20, 24, 32, 48, 64, 128),
)
"""The orders of a curve, mostly whole ones, which price a new event twice as fast; a further order can only refuse."""


def order_filter(
    course: Event,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    conversion: Conversion = Conversion.IMPROVED,
) -> RdpOrderFilter:
    """The filter at the order at which (epsilon, delta) has room for the most copies of `course`."""
    coarse = _scales(course, epsilon, delta, adjacency, conversion, rdp.ORDERS)
    best = int(np.argmax(coarse))
    low, high = rdp.ORDERS[max(0, best - 1)] - 1, rdp.ORDERS[min(best + 1, len(rdp.ORDERS) - 1)] - 1
    near = (rdp.ORDERS[best], *(1 + low * (high / low) ** (k / 32) for k in range(1, 32)))
    order = near[int(np.argmax(_scales(course, epsilon, delta, adjacency, conversion, near)))]
    return at_order(order, epsilon, delta, adjacency, conversion)


def at_order(
    order: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    conversion: Conversion = Conversion.IMPROVED,
) -> RdpOrderFilter:
    """The filter at `order` whose limit converts to epsilon at delta; `InputError` if the order allows none."""

    def build(share: float) -> RdpOrderFilter:
        limit = float(_room((order,), epsilon * share, delta, conversion)[0])
        if not limit > 0:
            raise InputError(f"epsilon {epsilon:g} at delta {delta:g} leaves nothing to spend at order {order:g}")
        return RdpOrderFilter(order, limit, delta, conversion, adjacency)

    return _within(epsilon, build)


def curve_filter(
    course: Event,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    orders: Sequence[float] = TRACKED,
) -> RdpCurveFilter:
    """The filter whose limits are the Rényi curve of `course`, scaled as far as (epsilon, delta) allows.

    Orders at which the course has no finite bound are not tracked.
    """
    scale = float(np.max(_scales(course, epsilon, delta, adjacency, Conversion.IMPROVED, orders)))
    curve = _curve(course, adjacency, orders)
    tracked = np.isfinite(curve) & (curve > 0)
    kept = tuple(float(order) for order, keep in zip(orders, tracked, strict=True) if keep)

    def build(share: float) -> RdpCurveFilter:
        return RdpCurveFilter(kept, tuple(map(float, scale * share * curve[tracked])), delta, adjacency)

    return _within(epsilon, build)


def zcdp_filter(epsilon: float, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> ZcdpFilter:
    """The zCDP filter whose rho converts to epsilon at delta."""
    rho = _some(zcdp.rho_for(epsilon, delta), epsilon, delta)
    return _within(epsilon, lambda share: ZcdpFilter(rho * share, delta, adjacency))


def gaussian_filter(epsilon: float, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> GaussianFilter:
    """The Gaussian-DP filter whose mu is (epsilon, delta)-private."""
    epsilon = checks.positive("epsilon", epsilon)
    mu = _some(gdp.mu_for(epsilon, checks.open_unit("delta", delta)), epsilon, delta)
    return _within(epsilon, lambda share: GaussianFilter(mu * mu * share, delta, adjacency))


def _some(largest: float, epsilon: float, delta: float) -> float:
    """A budget in the currency of a filter; `InputError` if it is 0."""
    if not largest > 0:
        raise InputError(f"epsilon {epsilon:g} at delta {delta:g} leaves nothing to spend; raise epsilon or delta")
    return largest


def _scales(
    course: Event,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    conversion: Conversion,
    orders: Sequence[float],
) -> Array:
    """Copies of the course that fit at each order: (epsilon - conversion) / curve. `InputError` if none fits at all."""
    with np.errstate(all="ignore"):
        scales = _room(orders, epsilon, delta, conversion) / _curve(course, adjacency, orders)
    scales = np.where(np.isfinite(scales), scales, 0.0)
    if not np.max(scales) > 0:
        raise InputError(f"epsilon {epsilon:g} at delta {delta:g} leaves nothing to spend at any order for this course")
    return scales


def _curve(course: Event, adjacency: Adjacency, orders: Sequence[float]) -> Array:
    if not tally(course):
        raise InputError("the planned course releases nothing; a filter needs a course to choose its orders by")
    try:
        with np.errstate(all="ignore"):
            return releases(course, adjacency).rdp_curve()(orders)
    except ArithmeticError:  # so little noise that nothing is proved at any order
        return np.full(len(orders), np.inf)


def _room(orders: Sequence[float], epsilon: float, delta: float, conversion: Conversion) -> Array:
    """The largest Rényi divergence at each order that converts to epsilon at delta."""
    epsilon = checks.positive("epsilon", epsilon)
    delta = checks.open_unit("delta", delta)
    array = np.asarray(orders, dtype=np.float64)
    room: Array = epsilon - parse(Conversion, "conversion", conversion).rule(array, np.zeros_like(array), delta)
    return room


def _within(epsilon: float, build: Callable[[float], F]) -> F:
    """The first of ever smaller filters whose guarantee, a conversion rounded up, is within epsilon."""
    slack = 0.0
    while True:
        built = build(1 - slack)
        if built.guarantee().epsilon <= epsilon:
            return built
        slack = max(1e-12, 2 * slack)
        if slack > 0.5 or math.isnan(slack):
            raise InputError(f"no filter meets epsilon {epsilon:g}; raise epsilon or delta")
