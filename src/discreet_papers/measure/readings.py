"""Readings of a charged run, as if it had stopped at given steps: by odometers, and by one Rényi curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from discreet.accounting.adaptive import costs, odometers
from discreet.accounting.theories import rdp
from discreet.core.adjacency import Adjacency
from discreet.core.events import Event
from discreet_papers.parts.odometer import READERS

Charge = tuple[Event, int, int]
"""An event, how often it was charged, and its number of steps (0 for a query or a count)."""

Costs = tuple[float, ...]


def readings(
    charges: Sequence[Charge], steps: Sequence[int], delta: float, adjacency: Adjacency
) -> dict[str, list[float]]:
    """Each odometer's readings after the numbers of steps in `steps`, which rise. An event that has begun counts in
    full."""
    found = {}
    for name, (make, _) in READERS.items():
        odometer = make(delta, adjacency=adjacency)
        empty = odometers.start(odometer)
        sums = _sums(charges, steps, odometer.cost)
        found[name] = [odometers.read(odometer, odometers.advance(odometer, empty, one)).epsilon for one in sums]
    return found


def budget(charges: Sequence[Charge], steps: Sequence[int], delta: float, adjacency: Adjacency) -> list[float]:
    """Epsilon after the numbers of steps in `steps` by one Rényi curve, as a filter over all orders counts; no
    guarantee."""
    orders = rdp.ORDERS

    def cost(event: Event) -> Costs:
        return costs.rdp(event, adjacency, orders, (odometers.QUANTUM,) * len(orders))

    sums = [np.array(one) for one in _sums(charges, steps, cost)]
    return [float(rdp.improved(np.array(orders), one, delta).min()) for one in sums]


def _sums(charges: Sequence[Charge], steps: Sequence[int], cost: Callable[[Event], Costs]) -> Iterator[Costs]:
    """The sums, by order, of charges up to each of `steps`; zero without charges."""
    total: Costs = ()
    taken = at = 0
    for event, times, each in charges:
        one, left = cost(event), times
        while left:
            count = left
            if each and at < len(steps):
                count = min(left, max(1, -(-(steps[at] - taken) // each)))
            total = tuple(before + count * more for before, more in zip(total or (0.0,) * len(one), one, strict=True))
            left, taken = left - count, taken + count * each
            while at < len(steps) and each and taken >= steps[at]:
                yield total
                at += 1
