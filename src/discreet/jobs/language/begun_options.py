"""The options that a run was begun with, in its folder: who goes on with it must say the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from discreet.certificate.canonical import strict_json
from discreet.core.disk import write_durably
from discreet.core.errors import InputError

_FILE = "language.json"

Options = Mapping[str, object]


def keep(folder: Path, options: Options) -> None:
    """Write them into the folder of a new run; durable on return."""
    write_durably(folder / _FILE, (json.dumps(dict(options), indent=2) + "\n").encode())


def check_same(folder: Path, options: Options) -> None:
    """Refuse to go on with a run under other options: texts of another file would be drawn as if they were of this."""
    try:
        text = (folder / _FILE).read_bytes()
    except OSError:
        raise InputError(f"{folder} has no {_FILE}; it is no run of a language model") from None
    begun = strict_json(text, _FILE)
    for name, value in options.items():
        if not isinstance(begun, dict) or begun.get(name) != value:
            was = begun.get(name) if isinstance(begun, dict) else None
            raise InputError(f"{folder} was begun with {name} {was}, not {value}; say the same, or begin another run")
