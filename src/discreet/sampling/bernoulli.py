"""Independent draws of units, each with the same probability, exactly: from 64 random bits each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.core.array_types import IntArray

if TYPE_CHECKING:
    from discreet.randomness import Substream
    from discreet.randomness.spares import Words

_WORD_BITS = 64
_WORD_VALUES = 1 << _WORD_BITS
_ALL_ONES = np.uint64(_WORD_VALUES - 1)
_BLOCK_UNITS = 1 << 20  # the words of a block stay in the cache
_MOSTLY_ALIVE = 5  # up to this many bits, nearly every word of 64 units still has a zero somewhere


def _threshold(rate: float) -> int:
    """Return floor(rate 2^64), computed in integers: uniform floats on a grid would distort small rates."""
    numerator, denominator = rate.as_integer_ratio()
    return numerator * _WORD_VALUES // denominator


def drawn_at(rate: float, population: int, substream: Substream) -> IntArray:
    """The units drawn, in ascending order, where each of `population` units is drawn with probability `rate`."""
    threshold = _threshold(rate)
    if threshold == _WORD_VALUES:  # does not fit into a word, and no random bits are needed
        return np.arange(population, dtype=np.int64)
    return below_threshold(threshold, population, substream)


def below_threshold(threshold: int, population: int, substream: Substream) -> IntArray:
    """The units whose 64 random bits, read as a number, lie below `threshold` in [1, 2^64).

    A number below the threshold starts with certain zeros. These bits are drawn first, one bit of 64 units per word;
    only units with all these zeros draw their other bits. At a rate of 1 % this takes a tenth of the bits.
    """
    zeros = _WORD_BITS - threshold.bit_length()
    if population <= _BLOCK_UNITS:
        candidates = _with_leading_zeros(zeros, population, substream)
    else:
        starts = range(0, population, _BLOCK_UNITS)
        found = [_with_leading_zeros(zeros, min(_BLOCK_UNITS, population - i), substream) + i for i in starts]
        candidates = np.concatenate(found)
    rest = substream.words(candidates.size) >> np.uint64(zeros)
    return candidates[rest < np.uint64(threshold)]


def _with_leading_zeros(zeros: int, units: int, substream: Substream) -> IntArray:
    """The `units` whose first `zeros` random bits are all zero; words in which no unit is left draw no more bits."""
    if zeros == 0:
        return np.arange(units, dtype=np.int64)
    count, first = math.ceil(units / _WORD_BITS), min(zeros, _MOSTLY_ALIVE)
    seen = np.bitwise_or.reduce(substream.words(first * count).reshape(first, count))
    if zeros == first:
        positions = _zero_bits(seen)
    else:
        live = np.arange(count)
        for _ in range(first, zeros):
            alive = np.flatnonzero(seen != _ALL_ONES)
            live, seen = live[alive], seen[alive]
            seen |= substream.words(live.size)
        places = _zero_bits(seen)
        positions = live[places // _WORD_BITS] * _WORD_BITS + places % _WORD_BITS
    return positions[: np.searchsorted(positions, units)]  # they ascend


def _zero_bits(words: Words) -> IntArray:
    """Positions of the zero bits, bit 0 of word 0 first, in ascending order."""
    bits = np.invert(words).astype("<u8", copy=False).view(np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_))
