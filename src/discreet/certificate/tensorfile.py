"""Reading a safetensors file without torch: the digests of its tensors.

The format: eight bytes of little-endian header length, a JSON header that maps names to type, shape and byte
range, then the bytes of the tensors. It is read strictly: every byte belongs to one tensor, in the order of the file,
so that all readers find the same tensors and nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from discreet.certificate.canonical import strict_json
from discreet.core.errors import InputError

T = TypeVar("T")

_SIZES: Mapping[str, int] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}
"""Bytes of a number of each type."""

_LONGEST = 10**8
"""The most bytes of a header, by the format."""

_MOST_AXES = 64
"""The most axes of a tensor, as in NumPy and torch: the product of longer shapes would keep a reader busy."""


def tensor_digests(content: bytes) -> dict[str, str]:
    """SHA-256 of type, shape and bytes of every tensor, by name."""
    return _of_each(content, _digest)


def tensor_shapes(content: bytes) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, by name."""
    return _of_each(content, lambda entry, _: tuple(entry["shape"]))


def tensor_sizes(content: bytes) -> dict[str, int]:
    """The number of entries of every tensor, by name."""
    return {name: math.prod(shape) for name, shape in tensor_shapes(content).items()}


def _of_each(content: bytes, question: Callable[[dict[str, Any], memoryview], T]) -> dict[str, T]:
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(_LONGEST, len(content) - 8):
        raise InputError("a file of tensors cannot be read: it has no header of the length that it says")
    header = strict_json(content[8 : 8 + length], "the header of a file of tensors")
    body = memoryview(content)[8 + length :]
    try:
        _check(header, len(body))
        return {name: question(entry, body) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"a file of tensors cannot be read: {error}") from None


def _check(header: dict[str, Any], length: int) -> None:
    """Check that every tensor has the bytes that its type and shape need, and that each byte belongs to one tensor."""
    ranges = []
    for entry in header.values():
        shape, offsets = entry["shape"], entry["data_offsets"]
        if set(entry) != {"dtype", "shape", "data_offsets"} or entry["dtype"] not in _SIZES:
            raise ValueError("a tensor has an unknown type, or other fields than type, shape and place")
        if len(shape) > _MOST_AXES or not all(type(size) is int and 0 <= size < 2**63 for size in [*shape, *offsets]):
            raise ValueError("a shape or a place is no list of sizes")
        start, end = offsets
        if end - start != math.prod(shape) * _SIZES[entry["dtype"]]:
            raise ValueError("a tensor has other bytes than its shape needs")
        ranges.append((start, end))
    edges = [0, *itertools.chain(*sorted(ranges)), length]
    if any(end != start for end, start in zip(edges[::2], edges[1::2], strict=True)):
        raise ValueError("its tensors overlap, or leave bytes between them")


def _digest(entry: dict[str, Any], body: memoryview) -> str:
    start, end = entry["data_offsets"]
    digest = hashlib.sha256(f"{entry['dtype']}{entry['shape']}".encode())
    digest.update(body[start:end])
    return digest.hexdigest()
