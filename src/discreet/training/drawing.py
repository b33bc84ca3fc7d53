"""The units that take part in each step, in chunks of whole units."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from discreet.clipping import Units
from discreet.core.array_types import IntArray
from discreet.core.events import Event
from discreet.core.release import Receipt
from discreet.data import PrivateData
from discreet.distributed.lanes import Drawn, Lanes
from discreet.distributed.site_draws import SiteDraws
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Purpose, Stream
from discreet.randomness.spares import Words
from discreet.sampling import DealingSampler, Sampler, as_promised
from discreet.sampling.record import Draw
from discreet.sampling.within import places_within
from discreet.training.batch import Piece


class Draws:
    """Draws the batches of a run of `plan`. `chunk`: the most examples in a chunk, for memory; `units`: the most units
    in one. `lanes`: parts of a batch, of which this process takes its own; otherwise it takes the whole batch. Data at
    sites has a lane for each site."""

    def __init__(
        self, plan: Plan | AdaptivePlan, data: PrivateData, stream: Stream, chunk: int, lanes: Lanes | None = None
    ) -> None:
        self._plan, self._data, self._stream, self._most = plan, data, stream, plan.rows_per_unit
        self.units = max(1, chunk // (plan.rows_per_unit * data.views))
        self._lanes = lanes
        self._sites = None if data.sites is None else SiteDraws(data.sites, stream)
        self._first, self._epoch = -1, tuple[IntArray, ...]()
        self._dealt: Sampler | None = None
        self._known: tuple[Event, Draw, DealingSampler | None] | None = None

    def law(self, event: Event) -> Draw:
        """The law by which the batches of a charged event are drawn."""
        return self._law(event)[1]

    def _law(self, event: Event) -> tuple[Event, Draw, DealingSampler | None]:
        """The event, how its batches are drawn, and the sampler if it deals; most events are the one before again."""
        known = self._known
        if known is None or (event is not known[0] and event != known[0]):
            law = self._plan.draw_of(event)
            known = self._known = event, law, law.sampler if isinstance(law.sampler, DealingSampler) else None
        return known

    def next(self, receipt: Receipt) -> tuple[list[Piece], Drawn]:
        """The pieces of the step's batch that this process computes, and the units that it drew. An epoch's
        batches are drawn together, at the first of its steps that is taken; a step that was broken off before it drew
        leaves its batch unused."""
        first = receipt.position - receipt.index
        if first != self._first:
            self._first, self._epoch = first, self._period(receipt.event, first)
        units, seeds, alike = self._epoch[receipt.index], None, ""
        if self._lanes is not None:
            seeds = self._stream.substream(Purpose.LANES, receipt.position).words(self._lanes.count)
            told = units if self._sites is None else seeds
            alike = hashlib.sha256(np.ascontiguousarray(told).tobytes()).hexdigest()
        return list(self._pieces(units, receipt.position, seeds)), Drawn(units, alike)

    def _period(self, event: Event, first: int) -> tuple[IntArray, ...]:
        """The batches of the period that begins at step `first`."""
        _, law, dealing = self._law(event)
        if self._sites is not None:
            return self._sites.batches(law.sampler, first)
        here, sampler = (first, len(self._data), self._stream), law.sampler
        if dealing is not None:
            sampler = self._dealt = self._dealt or dealing.begin(*here)
        return as_promised(sampler, tuple(sampler.batches(*here)), len(self._data))

    def _pieces(self, drawn: IntArray, position: int, seeds: Words | None) -> Iterator[Piece]:
        """The batch in chunks of whole units, lane by lane; the number of units in a chunk is public."""
        groups, begun = self._data.groups, -1
        chosen = () if groups is None else self._chosen(groups.counts(drawn), drawn, position)
        if self._sites is not None:
            chunks = self._sites.chunks(drawn, self.units)
        else:
            chunks = (self._lanes or Lanes(1)).chunks(len(drawn), self.units)
        for lane, places in chunks:
            seed = None if seeds is None or lane == begun else int(seeds[lane]) >> 1
            begun = lane
            if groups is None:
                yield Piece(drawn[places.start : places.stop : places.step], seed=seed)
                continue
            rows = [groups.rows(int(drawn[place]), chosen[place]) for place in places]
            yield Piece(np.concatenate(rows), Units(tuple(map(len, rows)), at_most=self._most), seed)

    def _chosen(self, counts: IntArray, drawn: IntArray, position: int) -> Sequence[IntArray]:
        """The rows with which each drawn unit takes part, as places among its own; `counts`: how many it has."""
        if self._sites is None:
            return places_within(counts, self._most, self._stream.substream(Purpose.ROWS, position))
        found: list[IntArray] = []
        for number, places in self._sites.by_site(drawn):
            words = self._sites.words(number, Purpose.ROWS, position)
            found += places_within(counts[places.start : places.stop], self._most, words)
        return found
