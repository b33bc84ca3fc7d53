"""Errors of pydantic as one line that names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from discreet.core.errors import InputError
from discreet.sampling.record import Frozen as Frozen
from discreet.sampling.record import explain as explain

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], data: object, where: str) -> M:
    """`data` as a `model`, or an `InputError` that names `where`, the field and the fault."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, model)}") from None


def check_names(made_by: Callable[..., object], given: Iterable[str], fields: Sequence[str]) -> None:
    """Refuse arguments beside the named ones of a function and these `fields`, which it passes on."""
    named = [one.name for one in signature(made_by).parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name in given:
        if name not in fields:
            raise InputError(f"plan: unknown argument {name!r}; known: {', '.join([*named, *fields])}")
