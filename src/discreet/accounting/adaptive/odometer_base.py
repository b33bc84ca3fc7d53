"""The common parts of odometers: how costs are counted, and the root that a reading is."""

from __future__ import annotations

from collections.abc import Callable

from discreet.accounting.bisection import bisect

QUANTUM = 2.0**-44
"""Costs are counted in multiples of this."""

FULL = 2.0**53 * QUANTUM
"""A sum that reaches this (512) stays there and reads as infinite: larger sums would round, and protect nobody."""

OUTWARD = 1 + 1e-12
"""Readings are rounded up by this factor."""


def least(reached: Callable[[float], bool], high: float, low: float = 0.0) -> float:
    """The least loss, rounded up, from which on `reached` holds; `high` is doubled until it does."""
    if reached(low):
        return low
    while not reached(high):
        high = 2 * high + 1e-9
    return bisect(reached, low, high, relative=1e-12)[1]
