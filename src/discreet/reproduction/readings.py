"""What odometers read of a run as it was charged, had it stopped at one of some steps."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.accounting import odometers
from discreet.core.adjacency import Adjacency
from discreet.core.events import Event
from discreet.reproduction.odometer import READERS

Charge = tuple[Event, int, int]
"""An event, how often it was charged, and how many steps each of them has: none is a query or a count."""


def readings(
    charges: Sequence[Charge], steps: Sequence[int], delta: float, adjacency: Adjacency
) -> dict[str, list[float]]:
    """For each odometer, what it reads after so many steps; `steps` rise. An event that was begun is read in full."""
    found = {}
    for name, (make, _) in READERS.items():
        odometer = make(delta, adjacency=adjacency)
        spent, read, taken, at = odometers.start(odometer), list[float](), 0, 0
        for event, times, each in charges:
            cost, left = odometer.cost(event), times
            while left:
                count = left
                if each and at < len(steps):
                    count = min(left, max(1, -(-(steps[at] - taken) // each)))
                spent = odometers.advance(odometer, spent, [count * one for one in cost])
                left, taken = left - count, taken + count * each
                while at < len(steps) and each and taken >= steps[at]:
                    read.append(odometers.read(odometer, spent).epsilon)
                    at += 1
        found[name] = read
    return found
