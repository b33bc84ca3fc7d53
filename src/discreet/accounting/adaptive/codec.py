"""JSON of frozen records such as filters and odometers: the name of the kind and its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from discreet.core.errors import InputError

T = TypeVar("T")


def encode(what: str, kind: str, value: Any) -> dict[str, Any]:
    """`{what: kind, field: value, ...}`; floats keep every bit."""
    return {what: kind} | {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def decode(what: str, kinds: Mapping[str, type[T]], data: Mapping[str, Any]) -> T:
    """The inverse of `encode`. `InputError` for an unknown kind, a missing or an extra field."""
    name = data.get(what)
    if not isinstance(name, str) or name not in kinds:
        raise InputError(f"unknown {what} {name!r}; known: {', '.join(kinds)}")
    kind: Any = kinds[name]
    expected, given = {field.name for field in fields(kind)}, set(data) - {what}
    if given != expected:
        raise InputError(f"{what} {name!r} needs exactly the fields {sorted(expected)}, got {sorted(given)}")
    try:
        made: T = kind(**{key: value for key, value in data.items() if key != what})
    except TypeError as error:
        raise InputError(f"{what} {name!r} has a field of a wrong type: {error}") from None
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
