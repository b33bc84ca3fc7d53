"""Errors of pydantic as one line that names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from discreet.core.errors import InputError
from discreet.sampling.record import Frozen as Frozen

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], data: object, where: str) -> M:
    """`data` as a `model`, or an `InputError` that names `where`, the field and the fault."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, model)}") from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a validation error in one line."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        within = _at(model, first["loc"][:-1])
        return f"unknown key {field!r}" + ("" if within is None else f"; known: {', '.join(within.model_fields)}")
    if first["type"] == "union_tag_invalid":
        facts, where = first["ctx"], f"{field}: " if field else ""
        what = facts["discriminator"].strip("'")
        return f"{where}unknown {what} {facts['tag']!r}; known: {facts['expected_tags']}"
    message = re.sub(r"\b0\.0{5,}\d+", lambda tiny: f"{float(tiny[0]):g}", first["msg"].removeprefix("Value error, "))
    if not first["loc"]:
        return message
    if first["type"] == "value_error" and ", got " in message:
        return f"{field}: {message}"
    if first["type"] == "missing":
        return f"{field}: is needed, and is not there"
    return f"{field}: {message[0].lower()}{message[1:]}, got {first['input']!r:.80}"


def check_names(made_by: Callable[..., object], given: Iterable[str], fields: Sequence[str]) -> None:
    """Refuse arguments beside the named ones of a function and these `fields`, which it passes on."""
    named = [one.name for one in signature(made_by).parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name in given:
        if name not in fields:
            raise InputError(f"plan: unknown argument {name!r}; known: {', '.join([*named, *fields])}")


def _at(model: type[BaseModel], path: Sequence[object]) -> type[BaseModel] | None:
    """The model at a path of fields, keys and kinds (`columns.age.number`); None where several can be there."""
    found: list[type[BaseModel]] = [model]
    for name in path:
        fields = [one.model_fields[str(name)] for one in found if str(name) in one.model_fields]
        if fields:
            found = list(_models(fields[0].annotation))
        else:
            found = [one for one in found if name in _kinds(one)] or found
    return found[0] if len(found) == 1 else None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _kinds(model: type[BaseModel]) -> list[object]:
    """What `kind` or `type` is in a model of one kind."""
    return [model.model_fields[name].default for name in ("kind", "type") if name in model.model_fields]
