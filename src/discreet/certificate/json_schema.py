"""The part of JSON Schema (draft 2020-12) that the certificate needs, strict where the draft lets readers choose.

A whole number must be written as one: 3 is an integer, 3.0 is not. Unknown keywords are an error of the schema, never
skipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_SILENT = {"$schema", "$id", "$defs", "title", "description", "default", "discriminator"}

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,  # type: ignore[arg-type]
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "minProperties": lambda value, limit: len(value) >= limit,
}


def fault(value: object, schema: Schema, root: Schema | None = None, where: str = "") -> str | None:
    """The first place where `value` violates `schema`, and how; None if it is valid. `root` holds the $defs."""
    root = schema if root is None else root
    if "$ref" in schema:
        found = fault(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, where)
        if found is not None:
            return found
    for keyword in sorted(schema, key=lambda name: name != "type"):  # the other keywords are about values of that type
        wanted = schema[keyword]
        if keyword in _SILENT or keyword == "$ref":
            continue
        check = _CHECKS.get(keyword)
        if check is None and keyword not in _LIMITS:
            raise NotImplementedError(f"the keyword {keyword!r} of the schema is not known")
        if check is None:
            said = None if _LIMITS[keyword](value, wanted) else _at(where, f"breaks {keyword} {wanted}")
        else:
            said = check(value, wanted, schema, root, where)
        if said is not None:
            return said
    return None


def _at(where: str, what: str) -> str:
    return f"{where.removeprefix('.') or 'the certificate'} {what}"


def _type(value: object, wanted: Any, _schema: Schema, _root: Schema, where: str) -> str | None:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    return None if any(_TYPES[kind](value) for kind in kinds) else _at(where, f"must be of type {' or '.join(kinds)}")


def _properties(value: Any, wanted: Any, schema: Schema, root: Schema, where: str) -> str | None:
    for name, inner in wanted.items():
        if name in value:
            found = fault(value[name], inner, root, f"{where}.{name}")
            if found is not None:
                return found
    return None


def _additional(value: Any, wanted: Any, schema: Schema, root: Schema, where: str) -> str | None:
    for name in value.keys() - schema.get("properties", {}).keys():
        if wanted is False:
            return _at(where, f"has the unknown field {name[:80]!r}")
        found = None if wanted is True else fault(value[name], wanted, root, f"{where}.{name[:80]}")
        if found is not None:
            return found
    return None


def _required(value: Any, wanted: Any, _schema: Schema, _root: Schema, where: str) -> str | None:
    missing = [name for name in wanted if name not in value]
    return _at(where, f"lacks the field {missing[0]!r}") if missing else None


def _items(value: Any, wanted: Any, _schema: Schema, root: Schema, where: str) -> str | None:
    faults = (fault(one, wanted, root, f"{where}[{index}]") for index, one in enumerate(value))
    return next((found for found in faults if found is not None), None)


def _enum(value: object, wanted: Any, _schema: Schema, _root: Schema, where: str) -> str | None:
    known = any(type(value) is type(one) and value == one for one in wanted)
    return None if known else _at(where, f"must be one of {', '.join(map(str, wanted))}")


def _const(value: object, wanted: Any, schema: Schema, root: Schema, where: str) -> str | None:
    return _enum(value, [wanted], schema, root, where)


def _any_of(value: object, wanted: Any, _schema: Schema, root: Schema, where: str) -> str | None:
    faults = [fault(value, one, root, where) for one in wanted]
    return None if None in faults else _closest(value, wanted, faults, root, where)


def _one_of(value: object, wanted: Any, _schema: Schema, root: Schema, where: str) -> str | None:
    faults = [fault(value, one, root, where) for one in wanted]
    if faults.count(None) > 1:
        return _at(where, "can be read in two ways")
    return None if None in faults else _closest(value, wanted, faults, root, where)


def _closest(value: object, wanted: Any, faults: list[str | None], root: Schema, where: str) -> str:
    """The fault by the variant that `value` is meant to be.

    That is the variant with the same constants (`event`, `kind`); else the only variant without constants, `null`
    apart.
    """
    plain = []
    for one, found in zip(wanted, faults, strict=True):
        inner = root["$defs"][one["$ref"].removeprefix("#/$defs/")] if "$ref" in one else one
        named = {name: part["const"] for name, part in inner.get("properties", {}).items() if "const" in part}
        if named and isinstance(value, dict) and all(value.get(name) == constant for name, constant in named.items()):
            return found or ""
        if not named and inner.get("type") != "null":
            plain.append(found or "")
    return plain[0] if len(plain) == 1 else _at(where, "is of no known kind")


def _pattern(value: Any, wanted: Any, _schema: Schema, _root: Schema, where: str) -> str | None:
    return None if re.fullmatch(wanted, value) else _at(where, f"must match {wanted}")


_CHECKS: Mapping[str, Callable[[Any, Any, Schema, Schema, str], str | None]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "pattern": _pattern,
}
