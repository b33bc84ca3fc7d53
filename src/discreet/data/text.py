"""Words as numbers by public hashes, so that no vocabulary is taken from the data. Each text is encoded by itself."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Literal

import numpy as np

from discreet.core.array_types import IntArray
from discreet.data.hashing import hashed

Taken = Literal["words", "content", "stems", "any"]
"""The words to take: all words of English; those that are no stop words; the stems of these, marked where negated; or,
in any language, all runs of letters and digits."""

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_RUN = re.compile(r"[^\W_]+")
_MARK = re.compile(r"<[^<>]*>")
_ENDINGS = "ingly edly iness ness ings ing ies ied ers er est ed es ly s e y".split()  # noqa: SIM905
_LEAST, _MOST = 3, 7
_NEGATIONS = frozenset({"not", "no", "nor", "never", "without", "hardly"})
_REACH = 3

_hash = lru_cache(maxsize=1 << 21)(hashed)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without text in angle brackets."""
    return _WORD.findall(_MARK.sub(" ", text.lower()))


def taken(text: str, what: Taken) -> list[str]:
    """The taken words of a text; stop words are those that scikit-learn lists for English.

    A stem is a word without a common ending, if three letters remain, and at most its first seven letters. Each of the
    three words after a negation is marked, so that "not good" differs from "good".
    """
    if what == "any":
        return _RUN.findall(_MARK.sub(" ", unicodedata.normalize("NFKC", text).casefold()))
    all_words = words(text)
    if what == "words":
        return all_words
    left_out = _stop_words()
    if what == "content":
        return [word for word in all_words if word not in left_out]
    found, left = [], 0
    for word in all_words:
        if word in _NEGATIONS or word.endswith("n't"):
            left = _REACH
            found.append("not")
            continue
        if word not in left_out:
            found.append(f"not {stem(word)}" if left > 0 else stem(word))
        left -= 1
    return found


def stem(word: str) -> str:
    """A word without its ending, by a simple rule; see `taken`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST:
            return word[: -len(ending)][:_MOST]
    return word[:_MOST]


def tokens(
    texts: Sequence[str], buckets: int, length: int, what: Taken = "words", *, distinct: bool = False
) -> IntArray:
    """(texts, length): the first taken words, each as its hash from 1 to `buckets`, then zeros.

    With `distinct`, each number occurs once, and later words take the places of repeated ones.
    """
    found = np.zeros((len(texts), length), np.int64)
    for row, text in zip(found, texts, strict=True):
        numbers = (1 + _hash(word) % buckets for word in taken(text, what))
        first = list(islice(dict.fromkeys(numbers) if distinct else numbers, length))
        row[: len(first)] = first
    return found


def bags(texts: Sequence[str], buckets: int, grams: int, what: Taken = "content") -> np.ndarray:
    """(texts, buckets), float32, rows of L2 norm 1 (zero for a text without words).

    Each taken word, and each run of 2 to `grams` words of any kind, adds 1 + log(its count) to the bucket of its hash.
    The sign is one more bit of the hash, so that collisions do not add up.
    """
    found = np.zeros((len(texts), buckets), np.float32)
    for row, text in zip(found, texts, strict=True):
        counts = Counter(chain(taken(text, what), _runs(words(text), grams)))
        codes = np.fromiter(map(_hash, counts), np.uint64, len(counts))
        weights = 1 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))
        signs = np.where(codes >> np.uint64(63), -1.0, 1.0)
        np.add.at(row, (codes % np.uint64(buckets)).astype(np.int64), (signs * weights).astype(np.float32))
        row /= max(float(np.linalg.norm(row)), 1e-12)
    return found


def _runs(text: Sequence[str], grams: int) -> Iterator[str]:
    for size in range(2, grams + 1):
        yield from (" ".join(run) for run in zip(*(text[start:] for start in range(size)), strict=False))


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
