"""Broken builds whose ledger does not have what is released."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broken_builds import broken, patched

from discreet.core.events import Gaussian, Poisson
from discreet.core.release import Receipt
from discreet.ledger import Ledger


def charging(change: Any) -> Any:
    """A ledger that charges what `change(real reserve, self, run, attempt, position, events)` charges."""
    real, handed = Ledger.reserve, {}

    def reserve(self: Any, run: str, attempt: int, admission: Any) -> Any:
        position = handed.get(run, 0)
        events = tuple(admission(position))
        change(real, self, run, attempt, position, events)
        handed[run] = position + len(events)
        return tuple(Receipt(run, attempt, position + i, one) for i, one in enumerate(events))

    return patched((Ledger, "reserve", reserve))


@broken("half of the steps are charged", "charges")
def half_charged() -> Any:
    def change(real: Any, self: Any, run: str, attempt: int, position: int, events: Any) -> None:
        real(self, run, attempt, lambda _: events[: max(1, len(events) // 2)])

    return charging(change)


@broken("a block is charged after its steps", "charges")
def charged_late() -> Any:
    real, waiting = Ledger.reserve, {}

    def reserve(self: Any, run: str, attempt: int, admission: Any) -> Any:
        position = waiting.get(run, (0,))[0]
        if run in waiting:
            real(self, run, attempt, waiting[run][1])
        events = admission(position)
        waiting[run] = position + len(events), lambda _, e=events: e
        return tuple(Receipt(run, attempt, position + i, one) for i, one in enumerate(events))

    return patched((Ledger, "reserve", reserve))


@broken("the first block is free", "charges")
def first_block_free() -> Any:
    def change(real: Any, self: Any, run: str, attempt: int, position: int, events: Any) -> None:
        if position:
            real(self, run, attempt, lambda _: events)

    return charging(change)


@broken("steps are charged with a tenth more noise than they have", "charges")
def charged_with_more_noise() -> Any:
    def cheaper(event: Any) -> Any:
        if isinstance(event, Poisson):
            return Poisson(event.rate, cheaper(event.event))
        return replace(event, noise_multiplier=1.1 * event.noise_multiplier) if isinstance(event, Gaussian) else event

    def change(real: Any, self: Any, run: str, attempt: int, position: int, events: Any) -> None:
        real(self, run, attempt, lambda _: tuple(cheaper(one) for one in events))

    return charging(change)


@broken("a step is charged at a lower sampling rate", "charges")
def charged_at_a_lower_rate() -> Any:
    def change(real: Any, self: Any, run: str, attempt: int, position: int, events: Any) -> None:
        lower = tuple(replace(one, rate=0.9 * one.rate) if isinstance(one, Poisson) else one for one in events)
        real(self, run, attempt, lambda _: lower)

    return charging(change)
