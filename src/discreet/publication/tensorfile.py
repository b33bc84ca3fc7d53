"""Reading a safetensors file without torch: the digests of its tensors.

The format: eight bytes of little-endian header length, a JSON header that maps names to type, shape and byte
range, then the bytes of the tensors.
"""

from __future__ import annotations

import hashlib
import json

from discreet.core.errors import InputError


def tensor_digests(content: bytes) -> dict[str, str]:
    """SHA-256 of type, shape and bytes of every tensor, by name."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        body = memoryview(content)[8 + length :]
        return {name: _digest(entry, body) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"model.safetensors cannot be read: {error}") from None


def _digest(entry: dict[str, object], body: memoryview) -> str:
    offsets, shape = entry["data_offsets"], entry["shape"]
    if not isinstance(offsets, list) or not isinstance(shape, list):
        raise ValueError("malformed header")
    start, end = offsets
    if not 0 <= start <= end <= len(body):
        raise ValueError("a tensor lies outside the file")
    digest = hashlib.sha256(f"{entry['dtype']}{[int(size) for size in shape]}".encode())
    digest.update(body[start:end])
    return digest.hexdigest()
