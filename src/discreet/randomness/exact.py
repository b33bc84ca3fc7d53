"""Rounded normals with exactly their law, many at a time.

Candidates run in lanes, all at once, in 64-bit integer arithmetic. A lane reads its own words in the order in
which `candidate` would read them, and does what `candidate` would do, as long as the first 64 bits of every
number decide. Where they do not decide, the lane is marked and its further work is ignored: in the end `candidate`
runs on the words of that lane, then on new words. So the outcome of every lane is that of `candidate` on a sequence
of uniform words, and has the law of `candidate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import isqrt

import numpy as np
import numpy.typing as npt

from discreet.core import assumptions, checks
from discreet.core.errors import InputError
from discreet.randomness.blocks import fill_in_blocks
from discreet.randomness.candidate import DIGIT_BITS, SIGN_BIT, candidate, cumulative
from discreet.randomness.kept_arrays import whole_numbers
from discreet.randomness.spares import Words
from discreet.randomness.stream import Substream

EXACT_ASSUMPTION = assumptions.NOISE["exact"]
"""The assumption that a certificate cites where noise came from `exact_rounded_normals`."""

LARGEST_SCALE = 2**50

Integers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
_Lanes = npt.NDArray[np.intp]

BLOCK_WORDS = 2**40
"""Words for each block: about 9 are used per number, and a block that ran out would fail, not repeat."""
_SPARE_BITS = np.uint64(8)  # headroom for a product with 2 k + 2, where k < _MOST_K
_MOST_K = 2**7 - 1
_LOW_HALF, _HALF_BITS = np.uint64(2**32 - 1), np.uint64(32)


def exact_rounded_normals(substream: Substream, n: int, scale: int) -> Integers:
    """Return `n` independent integers with P(K = k) = Phi((k + 1/2) / scale) - Phi((k - 1/2) / scale); shape (n,).

    K is a normal of standard deviation `scale`, rounded to the nearest integer. The only assumption is that the
    words are uniform bits. The values depend on the address and on `n`, never on the number of threads, and are not
    a prefix of the values for a larger `n`. Afterwards `substream` stands after all words set aside for the values.

    `InputError` if `n` is not a whole number of at least 0 or `scale` not one in 1 .. 2^50. `OverflowError` if
    a value exceeds 63 bits, beyond 8,000 standard deviations. Source: Karney 2016 (see candidate.py).
    """
    values = whole_numbers(checks.count("n", n, least=0))
    filler = partial(ExactNormals, checked_scale(scale))
    fill_in_blocks(substream, values, filler, words=lambda _: BLOCK_WORDS)
    return values


def checked_scale(scale: object) -> int:
    """Return `scale`; `InputError` unless it is a whole number in 1 .. 2^50, which keeps samplers within 64 bits."""
    result = checks.count("scale", scale)
    if not result <= LARGEST_SCALE:
        raise InputError(f"scale must be at most 2^50, got {result}; use a coarser grid")
    return result


class ExactNormals:
    """Fills blocks with exact rounded normals."""

    def __init__(self, scale: int, _size: int) -> None:
        self._scale = scale

    def fill(self, substream: Substream, out: Integers) -> None:
        """Overwrite `out`, shape (b,), with the first b accepted candidates of a sequence."""
        done = 0
        while (missing := len(out) - done) > 0:
            number = missing + 2 * missing // 5 + 4 * isqrt(missing) + 16  # a share of 0.715 is accepted
            found = candidates(Tapes(substream, number), self._scale)[:missing]
            out[done : done + len(found)] = found
            done += len(found)


class Tapes:
    """The words of each lane, in the order in which the lane drew them, and which lanes are undecided."""

    def __init__(self, substream: Substream, lanes: int) -> None:
        self.lanes = lanes
        self._substream = substream
        self._draws: list[tuple[_Lanes, Words]] = []
        self._undecided = np.zeros(lanes, np.bool_)

    def draw(self, lanes: _Lanes) -> Words:
        """Return the next word of each of `lanes`, which are in ascending order."""
        words = self._substream.words(len(lanes))
        self._draws.append((lanes, words))
        return words

    def mark(self, lanes: _Lanes, undecided: _Flags) -> None:
        """Mark the `lanes` whose words so far do not decide a comparison, as `undecided` says."""
        if undecided.any():
            self._undecided[lanes[undecided]] = True

    def marked(self) -> list[int]:
        """Return the lanes that were marked."""
        return [int(lane) for lane in np.flatnonzero(self._undecided)]

    def replay(self, lane: int) -> Iterator[int]:
        """Yield the words that `lane` drew, then new ones."""
        for lanes, words in self._draws:
            at = np.searchsorted(lanes, lane)
            if at < len(lanes) and lanes[at] == lane:
                yield int(words[at])
        while True:
            yield int(self._substream.words(1)[0])


def candidates(tapes: Tapes, scale: int) -> Integers:
    """Run one candidate in each lane and return the accepted values, in the order of the lanes."""
    every = np.arange(tapes.lanes)
    k = _integer_parts(tapes, every)
    x = tapes.draw(every)
    accepted = _accepted(tapes, k, x)

    lanes = np.flatnonzero(accepted)
    negative = tapes.draw(lanes) < SIGN_BIT
    sizes, undecided = _sizes(k[lanes], x[lanes], scale)
    tapes.mark(lanes, undecided)

    values = np.empty(tapes.lanes, np.int64)
    values[lanes] = np.where(negative, -sizes, sizes)
    for lane in tapes.marked():
        value = candidate(tapes.replay(lane).__next__, scale)
        accepted[lane] = value is not None
        values[lane] = value or 0
    return values[accepted]


def _integer_parts(tapes: Tapes, lanes: _Lanes) -> Words:
    """Step 1: the k whose interval of the cumulative sums contains a uniform number; as `candidate.integer_part`."""
    u = tapes.draw(lanes)
    lower, upper = cumulative(DIGIT_BITS)
    bounds = [bound for bound in upper if bound < 2**DIGIT_BITS]  # a word cannot reach the others
    below_next = np.array(lower[: len(bounds) + 1], np.uint64)
    k = np.zeros(len(u), np.uint64)
    for bound in bounds:
        k += u >= np.uint64(bound)
    tapes.mark(lanes, u >= below_next[k])
    return k


def _accepted(tapes: Tapes, k: Words, x: Words) -> _Flags:
    """Step 3: which lanes succeed in k + 1 trials. A lane stops at its first failure."""
    accepted = np.ones(len(k), np.bool_)
    lanes = np.arange(len(k))
    for passed in range(_MOST_K):
        success = _trials(tapes, lanes, k[lanes], x[lanes])
        accepted[lanes[~success]] = False
        lanes = lanes[success]
        lanes = lanes[k[lanes] > passed]
        if not len(lanes):
            break
    return accepted


def _trials(tapes: Tapes, lanes: _Lanes, k: Words, x: Words) -> _Flags:
    """Return the outcome of one trial in each lane, as `candidate.trial` does."""
    even = np.ones(len(lanes), np.bool_)
    running = np.arange(len(lanes))
    y, factor = x, 2 * k + 2
    right = ((2 * k) << (DIGIT_BITS - _SPARE_BITS)) + (x >> _SPARE_BITS)
    while len(running):
        z = tapes.draw(lanes[running])
        tapes.mark(lanes[running], z == y)
        lower = z < y
        running, z = running[lower], z[lower]
        coin = tapes.draw(lanes[running]) >> _SPARE_BITS
        left = coin * factor[running]
        heads, tails = left + factor[running] <= right[running], left > right[running]
        tapes.mark(lanes[running], ~(heads | tails))
        running, y = running[heads], z[heads]
        even[running] ^= True
    return even


def _sizes(k: Words, x: Words, scale: int) -> tuple[Integers, _Flags]:
    """Return scale x (k + x) rounded, and where 64 bits of x do not decide it; as `candidate.rounded_product`.

    With X = 2^64 x, the product scale X = high 2^64 + low is computed from 32-bit halves, and no sum exceeds 2^64.
    The fraction above `high` lies in [low, low + scale) / 2^64, so rounding is undecided if 1/2 is inside.
    """
    top, bottom = np.uint64(scale >> 32), np.uint64(scale & (2**32 - 1))
    x_top, x_bottom = x >> _HALF_BITS, x & _LOW_HALF
    ends = bottom * x_bottom
    middle = bottom * x_top + (ends >> _HALF_BITS)
    cross = top * x_bottom + (middle & _LOW_HALF)
    high = top * x_top + (middle >> _HALF_BITS) + (cross >> _HALF_BITS)
    low = (cross << _HALF_BITS) | (ends & _LOW_HALF)

    half = np.uint64(SIGN_BIT)
    rounds_up = low >= half
    undecided = ~rounds_up & (low > half - np.uint64(scale))
    return (k * np.uint64(scale) + high + rounds_up).view(np.int64), undecided
