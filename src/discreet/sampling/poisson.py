"""Poisson sampling: every unit takes part in every step independently, with the same probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.events import Event, Poisson
from discreet.randomness import Purpose, Stream, Substream

_WORD_VALUES = 1 << 64
_BLOCK_WORDS = 1 << 14  # the words of a block stay in the cache


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Includes each unit with probability `rate`, by comparing one 64-bit word with an integer threshold.

    The probability is exactly floor(rate 2^64) / 2^64. For a rate of 2^-11 or more that is the float `rate`
    itself; for smaller ones it is smaller by less than 2^-64, which the event at `rate` covers, because a
    guarantee never gets worse when the rate falls. `rate` must be in [2^-64, 1]: below, nobody would ever
    be drawn. `InputError` otherwise.
    """

    rate: float
    period: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checks.rate("rate", self.rate))
        if _threshold(self.rate) == 0:
            raise InputError(f"rate must be at least 2^-64 (below, nobody is ever drawn), got {self.rate!r}")

    def event(self, inner: Event) -> Poisson:
        """Return the event of releasing `inner` on one draw."""
        return Poisson(self.rate, inner)

    def draw(self, step: int, size: int, stream: Stream) -> npt.NDArray[np.int64]:
        """Return the sorted indices, out of 0 .. size - 1, that take part in `step`; shape (batch,), maybe (0,).

        | case     | result                    |
        |----------|---------------------------|
        | size 0   | empty                     |
        | rate 1   | everyone                  |
        | no hits  | empty: a valid batch      |

        Every case takes the address (sampling, step) of `stream`, so no step can be drawn twice:
        `RandomnessReuse`. `InputError` for a step or size that is not a whole number of at least 0.
        """
        population = checks.count("size", size, least=0)
        substream = stream.substream(Purpose.SAMPLING, step)
        threshold = _threshold(self.rate)
        if threshold == _WORD_VALUES:  # does not fit a word, and needs none
            return np.arange(population, dtype=np.int64)
        return _below(np.uint64(threshold), population, substream)


def _threshold(rate: float) -> int:
    """Return floor(rate 2^64), in integers: a float64 or float32 grid of uniforms would distort small rates."""
    numerator, denominator = rate.as_integer_ratio()
    return numerator * _WORD_VALUES // denominator


def _below(threshold: np.uint64, population: int, substream: Substream) -> npt.NDArray[np.int64]:
    """Return the positions, among the next `population` words, of those below `threshold`."""
    hits = [
        start + np.flatnonzero(substream.words(min(_BLOCK_WORDS, population - start)) < threshold)
        for start in range(0, population, _BLOCK_WORDS)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *hits]).astype(np.int64, copy=False)
