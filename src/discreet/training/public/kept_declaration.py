"""What was declared before the first step lies in the run's folder: whoever goes on with the run declares the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.core.disk import sync_folder, write_durably
from discreet.core.errors import InputError
from discreet.ledger import QUERIES, Entry


def keep_or_check(file: Path, declared: Mapping[str, Any] | None, record: Sequence[Entry], others: str) -> bool:
    """Keep what a run declares, and return True. If it has begun, by its `record` in the ledger, return False, or raise
    `InputError` unless it has kept this very declaration. `others`: what else it began with, in words."""
    if has_begun(record):
        check_kept(file, declared, others)
        return False
    keep(file, declared)
    return True


def keep(file: Path, declared: Mapping[str, Any] | None) -> None:
    """Write the declaration of a run that has taken no step, in the place of any other; None: nothing is declared."""
    if declared is not None:
        write_durably(file, (json.dumps(declared) + "\n").encode())
    elif file.exists():
        file.unlink()
        sync_folder(file.parent)


def has_begun(record: Sequence[Entry]) -> bool:
    """Whether a run has declarations to go on with. One that has only answered queries may still begin with others, and
    so may one that was opened and killed before its first attempt: perhaps it had not kept its declarations yet."""
    return any(entry.kind == "attempt" and entry.content.get("engine") != QUERIES for entry in record)


def check_kept(file: Path, declared: Mapping[str, Any] | None, others: str) -> None:
    """`InputError` unless the run has kept this declaration. `others`: what else it began with, in words."""
    try:
        kept = json.loads(file.read_text())
    except FileNotFoundError:
        kept = None
    except (OSError, ValueError):
        raise InputError(f"cannot read {file}; start a new run") from None
    if kept != declared:
        raise InputError(f"the run was started with {others}; go on with what it began with")
