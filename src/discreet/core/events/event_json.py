"""Events as JSON: the published name of the event's kind (`events.KINDS`) and the event's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import KINDS, Event
from discreet.core.trials import trials_from_json, trials_to_json


class Field(NamedTuple):
    """A field of an event: its name in JSON, its name in the class, and its annotation in the class."""

    published: str
    name: str
    type: str


@lru_cache(maxsize=256)
def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of an event class in published order: numbers and words first, then nested events and laws."""
    found = [Field("of" if _nests(str(one.type)) else one.name, one.name, str(one.type)) for one in fields(kind)]
    return tuple(sorted(found, key=lambda one: one.type in _READERS))


def to_json(event: Event) -> dict[str, Any]:
    """Encode an event as JSON-ready data under its published name; `from_json` is the inverse."""
    kind: Any = type(event)
    parts = {one.published: _WRITERS.get(one.type, _same)(getattr(event, one.name)) for one in fields_of(kind)}
    return {"event": _name_of(kind), **parts}


def from_json(data: object) -> Event:
    """Decode what `to_json` made. Unknown names, missing or extra fields are an `InputError`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("event"), str):
        raise InputError(f"an event must be an object with a field 'event', got {data!r}")
    name = data["event"]
    if name not in KINDS:
        raise InputError(f"unknown event {name!r}; known: {', '.join(sorted(KINDS))}")
    parts, given = fields_of(KINDS[name]), set(data) - {"event"}
    if given != {one.published for one in parts}:
        needed = sorted(one.published for one in parts)
        raise InputError(f"event {name!r} needs exactly the fields {needed}, got {sorted(given)}")
    for one in parts:
        if one.type == _EVENTS and not isinstance(data[one.published], list):
            raise InputError(f"event {name!r} needs a list in {one.published!r}")
    made: Event = KINDS[name](**{one.name: _READERS.get(one.type, _same)(data[one.published]) for one in parts})
    return made


_EVENT, _EVENTS = "Event", "tuple[Event, ...]"


def _nests(type_name: str) -> bool:
    """Whether a field holds inner events; its published name is `of`."""
    return type_name in (_EVENT, _EVENTS)


@lru_cache(maxsize=256)
def _name_of(kind: type) -> str:
    return next(name for name, known in KINDS.items() if known is kind)


def _same(value: Any) -> Any:
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    _EVENT: from_json,
    _EVENTS: lambda parts: tuple(from_json(part) for part in parts),
    "Trials": trials_from_json,
}
_WRITERS: dict[str, Callable[[Any], Any]] = {
    _EVENT: to_json,
    _EVENTS: lambda parts: [to_json(part) for part in parts],
    "Trials": trials_to_json,
    "Query": lambda query: Query(query).value,
}
