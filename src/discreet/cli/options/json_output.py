"""`--json`: JSON on one line, for programs."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity|NaN')
_STANDARD = {"Infinity": "1e999", "NaN": "null"}
"""Standard JSON in the place of what Python writes: a number too large to be finite, and no value."""


def encoded(value: object, *, ascii_only: bool = True) -> str:
    """A value as JSON on one line, in the words of the standard."""
    written = json.dumps(value, ensure_ascii=ascii_only)
    return _TOKEN.sub(lambda found: _STANDARD.get(found[0], found[0]), written)  # texts are found whole, and stay


def echo_json(value: object) -> None:
    """Print a value as JSON on one line."""
    typer.echo(encoded(value))
