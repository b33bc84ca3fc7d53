"""The words of a text as numbers: by a public hash, or by a declared vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from discreet.core.disk import refuse_special
from discreet.core.errors import InputError
from discreet.data.tables.wide import FreeText
from discreet.data.text import taken, tokens


def numbered(texts: Sequence[str], column: FreeText) -> np.ndarray:
    """(texts, length), float32: the first different taken words, 1 to `column.words` each, then zeros.

    Each text is encoded by itself. Words outside a vocabulary are not taken.
    """
    if column.vocabulary is None:
        return tokens(texts, column.buckets, column.length, column.take, distinct=True).astype(np.float32)
    places, found = _places(column), np.zeros((len(texts), column.length), np.float32)
    for row, text in zip(found, texts, strict=True):
        known = dict.fromkeys(places[word] for word in taken(text, column.take) if word in places)
        first = list(islice(known, column.length))
        row[: len(first)] = first
    return found


def words_in(path: Path) -> list[str]:
    """The words of a vocabulary, one on each line of a file. `InputError` if it cannot be read, or has none."""
    refuse_special(path)
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise InputError(f"{path} has no words; write one on each line")
    return found


@lru_cache(maxsize=4)
def _places(column: FreeText) -> Mapping[str, int]:
    """The number of each word, in the form in which words are taken (as a stem, for example)."""
    places: dict[str, int] = {}
    for place, entry in enumerate(column.vocabulary or (), 1):
        forms = taken(entry, column.take)
        if forms:
            places.setdefault(forms[-1], place)
    return places
