"""`discreet verify`: recompute the claim of a published folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.core.imports.plug_ins import without_plug_ins


def verify(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    key: Annotated[
        str | None, typer.Option("--key", help="Who must have signed it: a .pub file, or 64 hexadecimal digits.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Reject a folder with files that the certificate does not cover.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check that a published model is the certified one and that its claim follows from the stated events."""
    without_plug_ins()
    from discreet.publication import verify as run_checks

    verification = run_checks(folder, key, strict=strict)
    if as_json:
        echo_json(verification.as_dict())
    else:
        for check in verification.checks:
            typer.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check.name}: {check.detail}")
        typer.echo(verification.summary)
    return 0 if verification.accepted else 1
