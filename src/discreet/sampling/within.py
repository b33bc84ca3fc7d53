"""Choosing a few rows of a unit with many: batches of units hold at most a given number of rows of each unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.sampling.uniform import subsets

if TYPE_CHECKING:
    from discreet.randomness import Substream

_WORDS = 1 << 22
"""The most random words that are drawn at a time."""


def places_within(counts: IntArray, most: int, substream: Substream) -> list[IntArray]:
    """The rows with which each unit i takes part, as sorted places out of 0 .. counts[i] - 1; one array for each unit.

    A unit with at most `most` rows takes part with all of them. Of a larger unit, `most` rows are drawn uniformly
    without replacement, exactly, and independently of other units. Units draw in the order of their sizes.
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
