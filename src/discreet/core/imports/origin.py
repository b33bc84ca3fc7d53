"""Where a class or a function comes from: its own name for that is a text, which anybody may set."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any


def is_from(one: Any, *packages: str) -> bool:
    """Whether a class or function is what a module of these packages has under its name, or is a function that was
    defined in that module; of a `functools.partial`, what it calls."""
    one = one.func if type(one) is functools.partial else one
    name = str(getattr(one, "__module__", None))
    if name.split(".")[0] not in packages or (module := sys.modules.get(name)) is None:
        return False
    if isinstance(one, types.FunctionType):
        return one.__globals__ is vars(module)
    found: Any = module
    for part in str(getattr(one, "__qualname__", "")).split("."):
        found = vars(found).get(part) if isinstance(found, type | types.ModuleType) else None
    return found is one


def bases(kind: type) -> tuple[type, ...]:
    """A class and those that it is derived from, in Python's order: whatever its metaclass says of that."""
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return found


def held_by(kind: type) -> dict[str, Any]:
    """What a class itself holds, by name, whatever its metaclass says of that."""
    return dict(type.__dict__["__dict__"].__get__(kind))


def static(kind: type, name: str) -> Any:
    """What a class, or one that it is derived from, holds under a name; None for nothing. No code of theirs runs."""
    return next((held[name] for held in map(held_by, bases(kind)) if name in held), None)


def strangers(kind: type, known: type) -> list[type]:
    """The classes that `kind` is derived from, it among them, and `known` is not: also those behind `known`."""
    common = {id(one) for one in bases(known)}
    return [one for one in bases(kind) if id(one) not in common]
