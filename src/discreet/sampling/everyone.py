"""No sampling: every unit takes part in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.core.events import Event
from discreet.randomness import Purpose, Stream


@dataclass(frozen=True, slots=True)
class EveryoneSampler:
    """Full-batch steps."""

    period: ClassVar[int] = 1

    def event(self, inner: Event) -> Event:
        """Return `inner` itself: nobody is left out."""
        return inner

    def batches(self, first: int, size: int, stream: Stream) -> tuple[IntArray, ...]:
        """Everyone; see `Sampler.batches`. The address is taken although no bits are needed."""
        stream.substream(Purpose.SAMPLING, first)
        return (np.arange(checks.count("size", size, least=0), dtype=np.int64),)
