"""Options that are numbers, checked as soon as the command line is read: what is wrong names the option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

Check = Callable[[str, object], float]


def checked(check: Check, option: str) -> Callable[[Any], float | None]:
    """A callback of typer that checks a value of `option`, where one is given."""

    def given(value: Any) -> float | None:
        return None if value is None else check(option, value)

    return given


def number(option: str, check: Check, said: str, panel: str | None = None) -> Any:
    """The option with this help, in this group of options; `check` says what it can be."""
    return typer.Option(option, help=said, rich_help_panel=panel, callback=checked(check, option))
