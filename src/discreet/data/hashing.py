"""Public hashes of names and words: a vocabulary that does not depend on data."""

from __future__ import annotations

import hashlib


def hashed(text: str) -> int:
    """64 bits that depend on nothing but the text (BLAKE2b)."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")
