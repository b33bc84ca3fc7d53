"""The ledger of who gives none: one file for all data sets that were named with `--dataset-id`."""

from __future__ import annotations

import os
from pathlib import Path

from discreet.core.errors import InputError


def user_ledger(*, make: bool = False) -> Path:
    """Where it is: $XDG_DATA_HOME/discreet/ledger.sqlite, or in ~/.local/share; with `make`, in a folder that is there.

    `InputError` if that folder cannot be made.
    """
    path = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "discreet" / "ledger.sqlite"
    if make:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make {path.parent} for a ledger: {error.strerror}; name one: --ledger") from None
    return path


def ledger_of(given: str | None, dataset_id: str) -> str | None:
    """The ledger that was named; else the own one, if the data set was named; else None, for one of the run alone."""
    return given if given is not None or not dataset_id else str(user_ledger(make=True))
