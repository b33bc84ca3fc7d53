"""What every sampler offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from discreet.core.events import Event
from discreet.randomness import Stream


class Sampler(Protocol):
    """A law of batches. Implementations are frozen and hold public facts only."""

    @property
    def period(self) -> int:
        """Steps that one event covers: 1, or a whole epoch."""
        ...

    def event(self, inner: Event) -> Event:
        """Return the event of releasing `inner` on one draw."""
        ...

    def draw(self, step: int, size: int, stream: Stream) -> npt.NDArray[np.int64]:
        """Return the sorted indices, out of 0 .. size - 1, of the units that take part in `step`.

        No earlier step needs to be drawn first. An empty batch is a result like any other.
        """
        ...
