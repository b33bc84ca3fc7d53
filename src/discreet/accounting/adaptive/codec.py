"""Frozen records such as filters and odometers: the fields that all have, and JSON of the name and the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from discreet.accounting.account import parse
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
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


def check_common(record: Any) -> None:
    """Check what all filters and odometers have, and replace it by values of their types; for `__post_init__`."""
    object.__setattr__(record, "delta", checks.open_unit("delta", record.delta))
    object.__setattr__(record, "adjacency", parse(Adjacency, "adjacency", record.adjacency))
    object.__setattr__(record, "unit", parse(Unit, "unit", record.unit))


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
