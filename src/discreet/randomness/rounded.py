"""Samplers of grid noise (normals rounded to integers) by name, each with its assumption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from discreet.core import assumptions, checks
from discreet.core.errors import InputError
from discreet.randomness.blocks import BLOCK, fill_in_blocks, long_blocks
from discreet.randomness.exact import BLOCK_WORDS, EXACT_ASSUMPTION, Integers, checked_scale, exact_rounded_normals
from discreet.randomness.kept_arrays import whole_numbers
from discreet.randomness.normal import Ziggurat
from discreet.randomness.stream import Substream
from discreet.randomness.ziggurat import Compiled, compiled

FAST_ASSUMPTION = assumptions.NOISE["fast"]
"""The assumption that a certificate cites where noise came from `fast_rounded_normals`."""


@dataclass(frozen=True)
class RoundedSampler:
    """A way to draw rounded normals."""

    name: str
    """The name in plans and certificates."""
    draw: Callable[[Substream, int, int], Integers]
    """`draw(substream, n, scale)` returns `n` integers K with K / scale nearly normal; shape (n,)."""
    assumption: str
    """The conditions under which the law is that of a rounded normal."""
    block: int = 1
    """Numbers that are drawn together: a part of a release begins and ends at multiples of it, or is cut from more."""
    block_words: int = 1
    """Words of the sub-stream that are set aside for so many numbers."""

    def draw_parts(self, substream: Substream, n: int, scale: int, parts: Sequence[tuple[int, int]]) -> Integers:
        """The numbers `start` .. `stop` - 1 of `draw(substream, n, scale)` for each of the `parts` (start, stop), one
        after the other, bit for bit, for the price of the blocks that they lie in. Nothing more can be drawn from
        `substream`. `InputError` unless the parts follow each other within 0 .. n."""
        ends = [0, *(place for part in parts for place in part), n]
        if ends != sorted(ends):
            raise InputError(f"parts of {n} numbers lie within them, one after the other, got {list(parts)}")
        found, filled, at = np.empty(sum(stop - start for start, stop in parts), np.int64), 0, 0
        for first, after, held in self._runs(parts):
            substream.part((first - at) * self.block_words)
            at = after
            words = substream.part((after - first) * self.block_words)
            drawn = self.draw(words, min(n, after * self.block) - first * self.block, scale)
            if len(held) == len(parts) == 1:
                return drawn[held[0][0] - first * self.block : held[0][1] - first * self.block]  # no copy
            for start, stop in held:
                found[filled : filled + stop - start] = drawn[start - first * self.block : stop - first * self.block]
                filled += stop - start
        return found

    def _runs(self, parts: Sequence[tuple[int, int]]) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """The blocks that parts lie in, from the first to after the last, with these parts: no block is in two runs."""
        runs: list[tuple[int, int, list[tuple[int, int]]]] = []
        for start, stop in parts:
            if start == stop:
                continue
            first, after, held = start // self.block, -(-stop // self.block), [(start, stop)]
            if runs and first <= runs[-1][1]:
                begun, _, before = runs.pop()
                first, held = begun, before + held
            runs.append((first, after, held))
        return runs


def fast_rounded_normals(substream: Substream, n: int, scale: int) -> Integers:
    """Return the next `n` normals of `substream`, times `scale`, each rounded to the nearest integer; shape (n,).

    P(K = k) = Phi((k + 1/2) / scale) - Phi((k - 1/2) / scale) up to the error that `FAST_ASSUMPTION` names: K is
    within scale x 2^-45 + 1/2 of an ideal value, so with a scale above 2^40 the last bits are those of float64. Words
    are read as by `normals`. `InputError` as in `exact_rounded_normals`.
    """
    count = checks.count("n", n, least=0)
    values = whole_numbers(count)
    filler = partial(_FastNormals, compiled(), checked_scale(scale))
    fill_in_blocks(substream, values, filler, words=int, block=long_blocks(count))
    return values


class _FastNormals:
    """Fills blocks with rounded normals of the ziggurat. It holds scratch space, so each thread needs its own."""

    def __init__(self, functions: Compiled, scale: int, size: int) -> None:
        self._ziggurat = Ziggurat(functions, size)
        self._scale, self._round_to_grid = float(scale), functions.round_to_grid

    def fill(self, substream: Substream, out: Integers) -> None:
        """Overwrite `out`, in place: its memory holds the words, then the normals, then the integers."""
        values = out.view(np.float64)
        self._ziggurat.fill(substream, values)
        self._round_to_grid(values, self._scale)  # |value| < 13.54 x 2^50, far from overflow


NOISE_SAMPLERS: Mapping[str, RoundedSampler] = MappingProxyType(
    {
        sampler.name: sampler
        for sampler in (
            RoundedSampler("fast", fast_rounded_normals, FAST_ASSUMPTION),
            RoundedSampler("exact", exact_rounded_normals, EXACT_ASSUMPTION, BLOCK, BLOCK_WORDS),
        )
    }
)
"""The samplers, by name."""
