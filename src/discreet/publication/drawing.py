"""How batches were drawn, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.events import Allocation, Epoch, Event, FixedSize, Poisson, TruncatedPoisson, steps_of
from discreet.publication.formats import number


def how_drawn(sampling: Mapping[str, Any], population: float) -> str:
    """One sentence about a plan's sampling."""
    match sampling:
        case {"kind": "poisson", "rate": rate}:
            return f"In each step every row is drawn independently with probability {number(rate)}."
        case {"kind": "truncated_poisson", "rate": rate, "capacity": capacity}:
            return (
                f"In each step every row is drawn independently with probability {number(rate)}; if more than "
                f"{number(capacity)} are drawn, a random {number(capacity)} of them stay."
            )
        case {"kind": "fixed_size", "batch": batch}:
            return f"In each step {number(batch)} of the {number(population)} rows are drawn at random."
        case {"kind": "shuffle", "batch": batch}:
            return (
                f"In each epoch the {number(population)} rows are shuffled and cut into batches of {number(batch)}, "
                "one for each step."
            )
        case {"kind": "allocation", "period": period, "chosen": chosen}:
            return f"Of every {number(period)} steps each row takes part in {number(chosen)}, chosen at random."
        case _:
            return "Every row takes part in each step."


def who_took_part(event: Event) -> str:
    """A few words about the draw of an event."""
    match event:
        case Poisson(rate):
            return f"each row with probability {number(rate)}"
        case TruncatedPoisson(rate, capacity):
            return f"each row with probability {number(rate)}, at most {number(capacity)}"
        case FixedSize(population, batch):
            return f"{number(batch)} of {number(population)} rows"
        case Epoch():
            return f"all rows, shuffled, in {number(len(steps_of(event)))} batches"
        case Allocation(steps, chosen):
            return f"each row in {number(chosen)} of {number(steps)} steps"
        case _:
            return "all rows"
