"""What events are made of: elementary events with their counts, the batches of an epoch, the steps of a draw."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache

from discreet.core.events.event_kinds import (
    Allocation,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Individual,
    Poisson,
    Repeat,
    TruncatedPoisson,
)


def flatten(event: Event, times: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield `(event, count)` pairs of events that are neither `Repeat` nor `Compose`.

    This is the one place where counts are multiplied; no accountant handles a count by itself.
    """
    if isinstance(event, Repeat):
        yield from flatten(event.event, times * event.count)
    elif isinstance(event, Compose):
        for part in event.events:
            yield from flatten(part, times)
    else:
        yield event, times


def tally(event: Event) -> dict[Event, int]:
    """Count equal elementary events. The order of first appearance is kept; accounting does not depend on it."""
    totals: dict[Event, int] = {}
    for part, times in flatten(event):
        totals[part] = totals.get(part, 0) + times
    return totals


def batches(epoch: Epoch) -> list[tuple[Event, int]]:
    """The batches of an epoch, as pairs (event on one batch, number of successive batches with that event)."""
    parts = epoch.event.events if isinstance(epoch.event, Compose) else (epoch.event,)
    return [(part.event, part.count) if isinstance(part, Repeat) else (part, 1) for part in parts]


def in_order(events: Iterable[Event]) -> Compose:
    """`events` in order as one composition; equal neighbours become one `Repeat`."""
    return Compose(tuple(Repeat(event, len(list(equal))) for event, equal in itertools.groupby(events)))


@lru_cache(maxsize=64)
def steps_of(event: Event) -> tuple[Event, ...]:
    """The event of each step that one draw covers: a single step, or all steps of an epoch, a period or a round."""
    match event:
        case Poisson() | TruncatedPoisson() | FixedSize():
            return (event.event,)
        case Epoch():
            return tuple(itertools.chain.from_iterable([inner] * count for inner, count in batches(event)))
        case Allocation(steps, _, inner) | CyclicPoisson(steps, _, inner) | Individual(steps, _, inner):
            return (inner,) * steps
        case _:
            return (event,)
