"""JSON lines: a file with an object of fields on every line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.core.errors import InputError

SUFFIXES = (".jsonl", ".ndjson")


_ONE_A_LINE = '; give each row a line of its own, as {"age": 40, "ill": true}'


def json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, one a line; empty lines are skipped. `InputError` names a line that is none."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _object(line, f"line {number} of {path.name}")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not in UTF-8; save it so") from None


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not JSON{_ONE_A_LINE}") from None
    if not isinstance(row, dict):
        raise InputError(f"{where} is no object with fields{_ONE_A_LINE}")
    return row
