"""One way to write JSON, so that equal content has equal bytes; and one strict way to read it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from discreet.core.errors import InputError


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


def strict_json(text: str | bytes, where: str) -> Any:
    """Read JSON in which no key is there twice and every number is finite; else an `InputError` that names `where`.

    Of a key that is there twice, one reader takes the first and another the last: they would read two claims.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not strict JSON: {error}; ask for the folder again") from None


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
