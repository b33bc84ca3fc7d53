"""An odometer beside a run: declared with the plan and read when the run ends. It may also end the run.

Its reading is ex post: a bound on the privacy loss of what was released, and no guarantee (`core.guarantee.ExPost`).
The guarantee of a run is that of its plan or its filter, with or without an odometer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator

from discreet.accounting.adaptive import odometers
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometers import (
    FULL,
    KINDS,
    DoublingOdometer,
    Odometer,
    RenyiOdometer,
)
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.events import Event, FixedSize, tally
from discreet.core.guarantee import ExPost
from discreet.core.rounding import CONFIRMABLE
from discreet.plan.pydantic_base import Frozen


def _decoded(value: object) -> Odometer:
    found = odometers.from_dict(value) if isinstance(value, Mapping) else value
    if not isinstance(found, Odometer):
        raise InputError(f"odometer must be one of {', '.join(KINDS)}, got {value!r:.80}")
    return found


class Reading(Frozen):
    """The odometer of a run. With `most`, the run ends before it would read more."""

    odometer: Annotated[Odometer, PlainValidator(_decoded), PlainSerializer(odometers.as_dict)]
    most: Annotated[float, Field(gt=0)] | None = None

    def moved(self, before: float, delta: float) -> Reading:
        """The reading of a plan whose delta was `before` and is `delta`. A delta of the odometer's own stays."""
        named = isinstance(self.odometer, RenyiOdometer | DoublingOdometer) and self.odometer.delta == before
        return Reading(odometer=replace(self.odometer, delta=delta), most=self.most) if named else self

    def start(self) -> Amounts:
        """The spent amount before the first release."""
        return odometers.start(self.odometer)

    def after(self, spent: Amounts, event: Event) -> Amounts:
        """The spent amount after this event."""
        return odometers.advance(self.odometer, spent, self.odometer.cost(event))

    def read(self, spent: Amounts) -> ExPost:
        """The reading for a spent amount."""
        return odometers.read(self.odometer, [min(FULL, amount * CONFIRMABLE) for amount in spent])


def as_reading(
    given: str | Odometer | Reading | None, most: float | None, delta: float, adjacency: Adjacency, unit: Unit
) -> Reading | None:
    """The odometer of a run under this adjacency and unit: by name (`renyi`, `doubling`), or the given one."""
    if given is None:
        if most is not None:
            raise InputError("stop_at is about what an odometer reads; name one with odometer='renyi'")
        return None
    if isinstance(given, Reading):
        return given
    if isinstance(given, str):
        by_name: dict[str, type[RenyiOdometer] | type[DoublingOdometer]] = {
            kind.kind: kind for kind in (RenyiOdometer, DoublingOdometer)
        }
        if given not in by_name:
            raise InputError(f"unknown odometer {given!r}; known by name: {', '.join(by_name)}; give others as objects")
        given = by_name[given](delta, adjacency=adjacency, unit=unit)
    return Reading(odometer=given, most=most)


def check_reading(reading: Reading | None, adjacency: Adjacency, unit: Unit, events: Iterable[Event]) -> None:
    """Refuse an odometer for another adjacency, or one that cannot price an event of the run."""
    if reading is None:
        return
    if (reading.odometer.adjacency, reading.odometer.unit) != (adjacency, unit):
        raise InputError("the odometer is for another adjacency or unit than the plan; make it for the plan's")
    for event in events:
        for part in tally(event):
            if isinstance(part, FixedSize):
                raise InputError("batches of fixed size have no odometer that a verifier confirms; use poisson")
            reading.odometer.cost(part)
