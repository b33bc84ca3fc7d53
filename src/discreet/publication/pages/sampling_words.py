"""How batches were drawn, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.events import Allocation, Epoch, Event, FixedSize, Poisson, TruncatedPoisson, steps_of
from discreet.publication.pages.formats import number
from discreet.publication.pages.unit_words import ROW, Words


def how_drawn(sampling: Mapping[str, Any], population: float, words: Words = ROW, *, changes: bool = False) -> str:
    """One sentence about a plan's sampling; `changes`: the probability is not the same in all steps."""
    if changes:
        return f"In each step every {words.one} is drawn independently, with a probability that changes over the steps."
    match sampling:
        case {"kind": "poisson", "rate": rate}:
            return f"In each step every {words.one} is drawn independently with probability {number(rate)}."
        case {"kind": "truncated_poisson", "rate": rate, "capacity": capacity}:
            return (
                f"In each step every {words.one} is drawn independently with probability {number(rate)}; if more than "
                f"{number(capacity)} are drawn, a random {number(capacity)} of them stay."
            )
        case {"kind": "fixed_size", "batch": batch}:
            return f"In each step {number(batch)} of the {number(population)} {words.many} are drawn at random."
        case {"kind": "shuffle", "batch": batch}:
            return (
                f"In each epoch the {number(population)} {words.many} are shuffled and cut into batches of "
                f"{number(batch)}, one for each step."
            )
        case {"kind": "allocation", "period": period, "chosen": chosen}:
            return f"Of every {number(period)} steps each {words.one} takes part in {number(chosen)}, chosen at random."
        case _:
            return f"Every {words.one} takes part in each step."


def who_took_part(event: Event, words: Words = ROW) -> str:
    """A few words about the draw of an event."""
    match event:
        case Poisson(rate):
            return f"each {words.one} with probability {number(rate)}"
        case TruncatedPoisson(rate, capacity):
            return f"each {words.one} with probability {number(rate)}, at most {number(capacity)}"
        case FixedSize(population, batch):
            return f"{number(batch)} of {number(population)} {words.many}"
        case Epoch():
            return f"all {words.many}, shuffled, in {number(len(steps_of(event)))} batches"
        case Allocation(steps, chosen):
            return f"each {words.one} in {number(chosen)} of {number(steps)} steps"
        case _:
            return f"all {words.many}"
