"""Shared options: the fields of a dataclass become options of a command, as if the command had declared them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Annotated, Any, cast, get_type_hints

Command = Callable[..., None]

_NONE: Mapping[str, Any] = MappingProxyType({})


def with_options(kind: type[Any], said: Mapping[str, Any] = _NONE) -> Callable[[Command], Command]:
    """Give a command that has a parameter of type `kind`, a dataclass, the fields of that as options in its place.

    Every field has a default. `said`: what typer is told of a field, by its name, where its type does not say it.
    """

    def given(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        name = next(name for name, hint in hints.items() if hint is kind)
        described: list[tuple[str, Any, Any]] = []
        for own in inspect.signature(command).parameters.values():
            described += _options(kind, said) if own.name == name else [(own.name, own.default, hints[own.name])]

        def run(**values: Any) -> None:
            options = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            command(**values, **{name: options})

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {option: hint for option, _, hint in described} | {"return": None}
        keyword = inspect.Parameter.KEYWORD_ONLY
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(option, keyword, default=default, annotation=hint)
                for option, default, hint in described
            ]
        )
        return run

    return given


def _options(kind: type[Any], said: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, default and type of each option."""
    hints, annotated = get_type_hints(kind, include_extras=True), cast(Any, Annotated)
    for field in fields(kind):
        hint = hints[field.name]
        yield field.name, field.default, annotated[hint, said[field.name]] if field.name in said else hint
