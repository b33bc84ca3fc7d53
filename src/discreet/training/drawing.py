"""The units that take part in each step, in chunks of whole units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from discreet.clipping import Units
from discreet.core.array_types import IntArray
from discreet.core.events import Event
from discreet.core.release import Receipt
from discreet.data import PrivateData
from discreet.distributed.lanes import Lanes
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Purpose, Stream
from discreet.sampling import DealingSampler, Sampler
from discreet.sampling.record import Draw
from discreet.sampling.within import places_within
from discreet.training.batch import Piece


class Draws:
    """Draws the batches of a run of `plan`. `chunk`: examples in a chunk, for memory; `units` of them are a chunk's
    units. `lanes`: parts of a batch, of which this process takes its own; otherwise it takes the whole batch."""

    def __init__(
        self, plan: Plan | AdaptivePlan, data: PrivateData, stream: Stream, chunk: int, lanes: Lanes | None = None
    ) -> None:
        self._plan, self._data, self._stream, self._most = plan, data, stream, plan.rows_per_unit
        self.units = max(1, chunk // (plan.rows_per_unit * data.views))
        self._lanes = lanes
        self._first, self._epoch = -1, tuple[IntArray, ...]()
        self._dealt: Sampler | None = None
        self._known: tuple[Event, Draw, DealingSampler | None] | None = None

    def law(self, event: Event) -> Draw:
        """How the batches of a charged event are drawn."""
        return self._law(event)[1]

    def _law(self, event: Event) -> tuple[Event, Draw, DealingSampler | None]:
        """The event, how its batches are drawn, and the sampler if it deals; most events are the one before again."""
        known = self._known
        if known is None or (event is not known[0] and event != known[0]):
            law = self._plan.draw_of(event)
            known = self._known = event, law, law.sampler if isinstance(law.sampler, DealingSampler) else None
        return known

    def next(self, receipt: Receipt) -> tuple[list[Piece], IntArray]:
        """What this process has of the batch of the step that `receipt` paid for, and the units of the whole batch. An
        epoch's batches are drawn together, at the first of its steps that is taken; a step that was broken off
        before it drew leaves its batch unused."""
        first = receipt.position - receipt.index
        if first != self._first:
            here = first, len(self._data), self._stream
            _, law, dealing = self._law(receipt.event)
            sampler = law.sampler
            if dealing is not None:
                sampler = self._dealt = self._dealt or dealing.begin(*here)
            self._first, self._epoch = first, tuple(sampler.batches(*here))
        drawn = self._epoch[receipt.index]
        return list(self._pieces(drawn, receipt.position)), drawn

    def _pieces(self, drawn: IntArray, position: int) -> Iterator[Piece]:
        """The batch in chunks of whole units, lane by lane; the number of units in a chunk is public."""
        groups, lanes, begun = self._data.groups, self._lanes or Lanes(1), -1
        seeds = None if self._lanes is None else self._stream.substream(Purpose.LANES, position).words(lanes.count)
        chosen: Sequence[IntArray] = ()
        if groups is not None:
            rows_of = self._stream.substream(Purpose.ROWS, position)
            chosen = places_within(groups.counts(drawn), self._most, rows_of)
        for lane, places in lanes.chunks(len(drawn), self.units):
            seed = None if seeds is None or lane == begun else int(seeds[lane]) >> 1
            begun = lane
            if groups is None:
                yield Piece(drawn[places.start : places.stop : places.step], seed=seed)
                continue
            rows = [groups.rows(int(drawn[place]), chosen[place]) for place in places]
            yield Piece(np.concatenate(rows), Units(tuple(map(len, rows))), seed)
