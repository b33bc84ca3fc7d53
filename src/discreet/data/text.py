"""Words as numbers by public hashes, so that no vocabulary is taken from the data. Every text by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from discreet.core.arrays import IntArray
from discreet.data.hashing import hashed

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_MARK = re.compile(r"<[^<>]*>")

_hash = lru_cache(maxsize=1 << 21)(hashed)


def words(text: str) -> list[str]:
    """The words of a text in small letters, without what stands in angle brackets."""
    return _WORD.findall(_MARK.sub(" ", text.lower()))


def tokens(texts: Sequence[str], buckets: int, length: int) -> IntArray:
    """(texts, length): the first words, each by its hash from 1 to `buckets`, then zeros."""
    found = np.zeros((len(texts), length), np.int64)
    for row, text in zip(found, texts, strict=True):
        first = words(text)[:length]
        row[: len(first)] = [1 + _hash(word) % buckets for word in first]
    return found


def bags(texts: Sequence[str], buckets: int, grams: int, *, stop: bool) -> np.ndarray:
    """(texts, buckets), float32, rows of L2 norm 1 (zero for a text without words).

    Each run of up to `grams` words adds 1 + log(how often it occurs) to the bucket of its hash, with a sign that is
    one more bit of it, so that what falls together does not add up. Stop words do not count alone if `stop` says so.
    """
    left_out = _stop_words() if stop else frozenset()
    found = np.zeros((len(texts), buckets), np.float32)
    for row, text in zip(found, texts, strict=True):
        counts = Counter(_runs(words(text), grams, left_out))
        codes = np.fromiter(map(_hash, counts), np.uint64, len(counts))
        weights = 1 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))
        signs = np.where(codes >> np.uint64(63), -1.0, 1.0)
        np.add.at(row, (codes % np.uint64(buckets)).astype(np.int64), (signs * weights).astype(np.float32))
        row /= max(float(np.linalg.norm(row)), 1e-12)
    return found


def _runs(text: Sequence[str], grams: int, left_out: frozenset[str]) -> Iterator[str]:
    yield from (word for word in text if word not in left_out)
    for size in range(2, grams + 1):
        yield from (" ".join(run) for run in zip(*(text[start:] for start in range(size)), strict=False))


def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
