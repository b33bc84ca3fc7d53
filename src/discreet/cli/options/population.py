"""The option `--population`, of several commands."""

from __future__ import annotations

from typing import Any

import typer

from discreet.cli.options.checked_numbers import checked
from discreet.core import checks
from discreet.core.errors import InputError


def population_option(said: str, panel: str | None = None) -> Any:
    """The option with this help, in this group of options."""
    return typer.Option(
        "--population",
        help=said,
        rich_help_panel=panel,
        parser=_people,
        metavar="<float>",
        callback=checked(checks.positive, "--population"),
    )


def _people(text: str) -> float:
    """A number of people or rows."""
    wrong = checks.two_ways(text)
    if wrong is not None:
        raise InputError(wrong)
    try:
        return float(text)
    except ValueError:
        raise InputError(f"must be a number, such as 2000, got {text[:80]!r}") from None
