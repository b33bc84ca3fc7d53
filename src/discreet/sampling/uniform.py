"""Exactly uniform choices from random words: whole numbers, subsets, orders.

All functions reject words that do not fit and draw again, so there is no bias at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import IntArray

if TYPE_CHECKING:
    from discreet.randomness import Substream

_WORD_VALUES = 1 << 64


def below(bound: int, count: int, substream: Substream) -> IntArray:
    """`count` independent whole numbers, uniform on 0 .. bound - 1, for bound in [1, 2^63]; shape (count,)."""
    usable = np.uint64(_WORD_VALUES // bound * bound - 1)  # words above would favour small results
    words = substream.words(count)
    rejected = np.flatnonzero(words > usable)
    while rejected.size:
        words[rejected] = substream.words(rejected.size)
        rejected = rejected[words[rejected] > usable]
    return (words % np.uint64(bound)).astype(np.int64)


def order(count: int, substream: Substream) -> IntArray:
    """A uniformly random order of 0 .. count - 1: the order of `count` random words, drawn anew if two are equal."""
    while True:
        words = substream.words(count)
        ranks = np.argsort(words)
        if not np.any(words[ranks[1:]] == words[ranks[:-1]]):
            return ranks


def subset(size: int, count: int, substream: Substream) -> IntArray:
    """A uniformly random subset of `count` out of 0 .. size - 1, sorted; shape (count,).

    The work is proportional to the smaller of the subset and its complement. Numbers are drawn until enough are
    distinct: the first `count` distinct numbers of an independent uniform sequence are a uniform subset.
    """
    if 2 * count > size:
        left_out = np.zeros(size, np.bool_)
        left_out[subset(size, size - count, substream)] = True
        return np.flatnonzero(~left_out)
    drawn = np.empty(0, np.int64)
    while True:
        distinct, first = np.unique(drawn, return_index=True)
        if distinct.size >= count:
            return np.sort(drawn[np.sort(first)[:count]])
        drawn = np.concatenate([drawn, below(size, count - distinct.size, substream)])


def subsets(rows: int, size: int, count: int, substream: Substream) -> IntArray:
    """`rows` independent uniformly random subsets of `count` out of 0 .. size - 1; shape (rows, count), any order."""
    few = count * count <= 4 * size  # then the numbers of a row are all distinct often enough
    chosen = np.empty((rows, count), np.int64)
    missing = np.arange(rows)
    while missing.size:
        if few:
            drawn = below(size, missing.size * count, substream).reshape(-1, count)
            keys: npt.NDArray[np.integer[Any]] = np.sort(drawn, axis=1)
        else:
            words = substream.words(missing.size * size).reshape(-1, size)
            ranks = np.argsort(words, axis=1)
            drawn, keys = ranks[:, :count], np.sort(words, axis=1)
        chosen[missing] = drawn
        missing = missing[(keys[:, 1:] == keys[:, :-1]).any(axis=1)]
    return chosen
