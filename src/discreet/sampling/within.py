"""Of a unit with many rows a few are taken at random: by-unit batches hold at most so many rows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.sampling.uniform import subsets

if TYPE_CHECKING:
    from discreet.randomness import Substream

_WORDS = 1 << 22
"""How many words may be drawn at a time."""


def places_within(counts: IntArray, most: int, substream: Substream) -> list[IntArray]:
    """Which of its rows each unit takes part with, as sorted places 0 .. counts[i] - 1; one array for each unit.

    A unit with at most `most` rows takes part with all of them. Of others, `most` are drawn uniformly without
    replacement, exactly, and independently of the other units. Units draw in the order of their sizes.
    """
    limit = checks.count("most", most)
    chosen = [np.arange(min(int(count), limit), dtype=np.int64) for count in counts]
    larger = np.flatnonzero(counts > limit)
    for size in np.unique(counts[larger]):
        alike = larger[counts[larger] == size]
        step = max(1, _WORDS // int(size))
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            drawn = np.sort(subsets(len(some), int(size), limit, substream), axis=1)
            for unit, places in zip(some, drawn, strict=True):
                chosen[unit] = places
    return chosen
