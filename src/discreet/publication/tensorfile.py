"""Reading a safetensors file without torch: the digests of its tensors.

The format: eight bytes of little-endian header length, a JSON header that maps names to type, shape and byte
range, then the bytes of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from discreet.core.errors import InputError

T = TypeVar("T")


def tensor_digests(content: bytes) -> dict[str, str]:
    """SHA-256 of type, shape and bytes of every tensor, by name."""
    return _of_each(content, _digest)


def tensor_shapes(content: bytes) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, by name."""
    return _of_each(content, lambda entry, _: tuple(int(size) for size in entry["shape"]))


def tensor_sizes(content: bytes) -> dict[str, int]:
    """How many numbers every tensor has, by name."""
    return {name: math.prod(shape) for name, shape in tensor_shapes(content).items()}


def _of_each(content: bytes, question: Callable[[dict[str, Any], memoryview], T]) -> dict[str, T]:
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        body = memoryview(content)[8 + length :]
        return {name: question(entry, body) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"a file of tensors cannot be read: {error}") from None


def _digest(entry: dict[str, Any], body: memoryview) -> str:
    offsets, shape = entry["data_offsets"], entry["shape"]
    if not isinstance(offsets, list) or not isinstance(shape, list):
        raise ValueError("malformed header")
    start, end = offsets
    if not 0 <= start <= end <= len(body):
        raise ValueError("a tensor lies outside the file")
    digest = hashlib.sha256(f"{entry['dtype']}{[int(size) for size in shape]}".encode())
    digest.update(body[start:end])
    return digest.hexdigest()
