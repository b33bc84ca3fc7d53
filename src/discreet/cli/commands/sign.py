"""`discreet sign`: put a name to a published folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.core.errors import VerificationFailed


def sign(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    key: Annotated[Path, typer.Option("--key", help="The file with your private Ed25519 key.")],
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make the key first: FILE (yours alone) and FILE.pub (to hand out).")
    ] = False,
) -> None:
    """Sign a published folder, once it is verified: certificate and files, as they are now."""
    from discreet.certificate import signature
    from discreet.publication import verify

    verification = verify(folder, signed=False)
    if not verification.accepted:
        failed = next(check for check in verification.checks if not check.passed)
        raise VerificationFailed(f"{folder} is not signed, because it was rejected: {failed.name}: {failed.detail}")
    if new_key:
        signature.new_key(key)
    typer.echo(f"{folder}: signed by {signature.sign(folder, key)}")
