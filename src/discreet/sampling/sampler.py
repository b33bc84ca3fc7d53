"""What every sampler offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from discreet.core.array_types import IntArray
from discreet.core.events import Event

if TYPE_CHECKING:  # streams load a cipher, which prices do without
    from discreet.randomness import Stream, Substream


class Sampler(Protocol):
    """A law of batches. Implementations are frozen and hold public facts only."""

    @property
    def period(self) -> int:
        """Steps that one event covers: 1, or a whole epoch."""
        ...

    def event(self, inner: Event) -> Event:
        """Return the event of one period.

        `inner` is what its step releases; with a longer period, what its steps release, as in `Epoch.event`.
        """
        ...

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """Return who takes part in each step of the period that begins at step `first`.

        One array of sorted indices, out of 0 .. size - 1, for each step; an empty one is a result like any other.
        No earlier period needs to be drawn first. The address (sampling, first) of `stream` is taken, so a period
        is drawn at most once: `RandomnessReuse`. `InputError` for a size that the sampler is not made for.
        """
        ...


def address(stream: Stream, first: int) -> Substream:
    """The randomness of the period that begins at step `first`; it is taken once."""
    from discreet.randomness import Purpose

    return stream.substream(Purpose.SAMPLING, first)
