"""`--json`: one JSON object on one line, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def echo_json(fields: Mapping[str, object]) -> None:
    """Print one JSON object on one line."""
    # 1e999 is how standard JSON can say infinity; every parser reads it as a number beyond all others.
    typer.echo(json.dumps(fields).replace("Infinity", "1e999"))
