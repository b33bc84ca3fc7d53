"""The user's default ledger: one file for all data sets that are named with `--dataset-id`."""

from __future__ import annotations

import os
from pathlib import Path

from discreet.core.disk import make_folder
from discreet.core.errors import InputError


def user_ledger(*, make: bool) -> Path:
    """Its path: $XDG_DATA_HOME/discreet/ledger.sqlite, or in ~/.local/share. With `make`, its folder is created.

    `InputError` if the folder cannot be created.
    """
    path = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "discreet" / "ledger.sqlite"
    if make:
        try:
            make_folder(path.parent, 0o700)
        except OSError as error:
            raise InputError(f"cannot make {path.parent} for a ledger: {error.strerror}; name one: --ledger") from None
    return path


def ledger_of(given: str | None, dataset_id: str | None) -> str | None:
    """The given ledger; else the user's, if the data set has a name; else None: the run has its own."""
    return given if given is not None or not dataset_id else str(user_ledger(make=True))
