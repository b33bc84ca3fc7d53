"""Standard normals in float64 from a sub-stream."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from discreet.core import assumptions, checks
from discreet.randomness.blocks import BLOCK, fill_in_blocks, long_blocks
from discreet.randomness.stream import Substream
from discreet.randomness.ziggurat import Compiled, compiled, tables

ASSUMPTION = assumptions.IDEAL_NORMAL
"""The assumption that a certificate cites where noise came from `normals`."""

Floats = npt.NDArray[np.float64]


def normals(substream: Substream, n: int) -> Floats:
    """Return the next `n` standard normals of `substream`; shape (n,). See `ASSUMPTION` for what "normal" means.

    Each normal takes one word, so the values do not depend on how a request is divided. Long requests use all
    cores, and no bit depends on their number. The last bits of a value may differ between processors (the words
    never do). `InputError` if `n` is not a whole number of at least 0.

    Source: Marsaglia and Tsang 2000 (see ziggurat.py).
    """
    values = np.empty(checks.count("n", n, least=0))
    fill_in_blocks(substream, values, partial(Ziggurat, compiled()), words=int, block=long_blocks(len(values)))
    return values


class Ziggurat:
    """Fills blocks of at most `size` numbers with normals. It holds scratch space, so each thread needs its own."""

    def __init__(self, functions: Compiled, size: int) -> None:
        self._functions, self._tables = functions, tables()
        self._places, self._left = np.empty((2, size + BLOCK), np.int64)  # only the first few per mille are used

    def fill(self, substream: Substream, out: Floats) -> None:
        """Overwrite `out`, contiguous, of shape (b,), with b normals from the next b words, in place."""
        table, undecided = self._tables, 0
        spares = substream.spares(len(out))
        for start in range(0, len(out), BLOCK):  # so that a word is still in the cache when it becomes a point
            piece = out[start : start + BLOCK]
            substream.fill(piece.view(np.uint64))
            rest = self._places[undecided:], self._left[undecided:]
            found = self._functions.propose(piece.view(np.int64), piece, table.units, table.edges, *rest)
            rest[0][:found] += start
            undecided += found
        while undecided:
            places, left = self._places[:undecided], self._left[:undecided]
            drawn = spares.next_round(places).view(np.int64)
            undecided = self._functions.settle(places, left, drawn, out, table.units, table.edges, table.heights)
