"""Canonical JSON: equal content has equal bytes; and a strict reader."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from discreet.core.errors import InputError, plain

MOST_VALUES = 500_000
"""The most values of a JSON file that is read."""


def canonical(value: object) -> bytes:
    """Keys sorted, no spaces, ASCII only, the shortest digits that read back the same; `InputError` for NaN.

    Whole numbers are written without a point and others with one, as Python does: 1 and 1.0 are not the same.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InputError(f"this has no canonical form: {error}") from None
    return text.encode("ascii")


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def check_values(content: bytes, where: str) -> None:
    """`InputError` for JSON that would fill a reader's memory: each comma and bracket may begin a value."""
    if sum(map(content.count, b",[{")) > MOST_VALUES:
        raise InputError(f"{where} has more than {MOST_VALUES:,} values, and is not read; ask for the folder again")


def strict_json(text: str | bytes, where: str) -> Any:
    """Read JSON in UTF-8 that every reader understands alike; otherwise an `InputError` that names `where`.

    Keys must be unique (readers differ on which of two values they take, so they would read two claims), numbers
    finite, and texts without half of a surrogate pair, which cannot be written. Nor are there long rows of blanks.
    """
    check_values(text if isinstance(text, bytes) else text.encode("utf-8", "replace"), where)
    try:
        content = text.decode("utf-8") if isinstance(text, bytes) else text
        if re.search(r"(?<!\s)\s{1000}", content):
            raise ValueError("a thousand blanks in a row, which hide what follows")
        found = json.loads(content, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
        for one in texts(found):
            one.encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not strict JSON: {plain(str(error))}; ask for the folder again") from None
    return found


def texts(value: Any) -> Iterator[str]:
    """Every text in JSON data, names of fields included."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is too large")
    return value
