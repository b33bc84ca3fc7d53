"""Checks of a number as soon as the command line is read, so that what is wrong names the option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

N = TypeVar("N", int, float)


def checked(check: Callable[[str, object], N], option: str) -> Callable[[N | None], N | None]:
    """A callback of typer that checks a value of `option`, where one is given."""

    def given(value: N | None) -> N | None:
        return None if value is None else check(option, value)

    return given
