"""The interface of samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from discreet.core.errors import InputError
from discreet.core.events import Epoch, Event, batches

if TYPE_CHECKING:  # streams load a cipher and arrays NumPy, which pricing and help do not need
    from discreet.core.array_types import IntArray
    from discreet.randomness import Stream, Substream


class Sampler(Protocol):
    """The law by which batches are drawn. Implementations are frozen and hold public facts only."""

    @property
    def period(self) -> int:
        """Steps that one event covers: 1, or a whole epoch."""
        ...

    def event(self, inner: Event) -> Event:
        """Return the event of one period.

        `inner`: what the step releases or, if a period has several steps, what they release together (`Epoch.event`).
        """
        ...

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """Return who takes part in each step of the period that begins at step `first`.

        One array of sorted indices out of 0 .. size - 1 for each step; it may be empty. Earlier periods need not be
        drawn first. The address (sampling, first) of `stream` is taken, so drawing a period again is a
        `RandomnessReuse`. `InputError` for a size that the sampler is not made for.
        """
        ...


@runtime_checkable
class DealingSampler(Sampler, Protocol):
    """A sampler whose periods have a draw in common."""

    def begin(self, first: int, size: int, stream: Stream) -> Sampler:
        """The sampler of an attempt that begins at step `first`, with the common draw in it."""
        ...


def one_release(inner: Event, steps: int, refusal: str) -> Event:
    """The event of a single step of a period of `steps` steps, whose events together are `inner` (as in `Epoch.event`).
    `InputError`, with the words of `refusal`, unless all steps release the same."""
    released = batches(Epoch(inner))
    if len({event for event, _ in released}) != 1 or sum(count for _, count in released) != steps:
        raise InputError(refusal)
    return released[0][0]


def address(stream: Stream, first: int) -> Substream:
    """The sub-stream for the period that begins at step `first`; `RandomnessReuse` if it was taken before."""
    from discreet.randomness import Purpose

    return stream.substream(Purpose.SAMPLING, first)


def as_promised(sampler: Sampler, drawn: tuple[IntArray, ...], size: int) -> tuple[IntArray, ...]:
    """The batches of a period in 64 bits, as places are added to them; `InputError` unless each has units out of
    `size`, ascending: one that is there twice would move the sum twice as far as its clip norm."""
    if len(drawn) != sampler.period or not all(_is_batch(one, size) for one in drawn):
        raise InputError(
            f"the sampler {type(sampler).__name__} draws something else than {sampler.period} array(s) of "
            "whole numbers, each ascending, from 0 to the number of units less 1, none twice; correct its `batches`"
        )
    return tuple(one.astype("int64", copy=False) for one in drawn)


def _is_batch(drawn: object, size: int) -> bool:
    import numpy as np

    if not isinstance(drawn, np.ndarray) or drawn.ndim != 1 or drawn.dtype.kind != "i":
        return False
    inside = drawn.size == 0 or (drawn[0] >= 0 and drawn[-1] < size)
    return bool(inside and (drawn[1:] > drawn[:-1]).all())
