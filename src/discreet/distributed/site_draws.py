"""Draws of data that lies at sites: each site draws for its own units, with random bits of its own.

Where units are drawn independently of each other (`SamplingRecord.INDEPENDENT`), the units drawn at all sites together
have the law of one draw from all units: a product of laws of single units can be taken in any parts. So the event of a
step is the same as for one data set. Nothing is divided by the number of sites, and no size of a site is told.

The law needs independent bits at every site. Of every sub-stream, site s has the words s 2^64 to (s + 1) 2^64 - 1 for
itself (`Substream.part`). They depend on the number of the site alone: not on the process that holds it, nor on others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.core.array_types import IntArray
from discreet.core.errors import RandomnessReuse
from discreet.data.private.sites import HeldSites
from discreet.randomness import Purpose, Stream, Substream
from discreet.sampling import DealingSampler, Sampler, as_promised

WORDS = 1 << 64
"""So many words of every sub-stream are set aside for each site."""


class SiteStreams:
    """The `stream` of a run, shared out among the sites with these `numbers`."""

    def __init__(self, stream: Stream, numbers: tuple[int, ...]) -> None:
        self._stream, self._numbers = stream, numbers
        self._left: dict[tuple[Purpose, int], dict[int, Substream]] = {}

    @property
    def kind(self) -> str:
        """That of the stream."""
        return self._stream.kind

    def take(self, number: int, purpose: Purpose, step: int) -> Substream:
        """The words of a site at an address; `RandomnessReuse` for a second request."""
        address = purpose, step
        if address not in self._left:
            self._left[address] = self._shares(self._stream.substream(purpose, step))
        found = self._left[address].pop(number, None)
        if not self._left[address]:
            del self._left[address]  # the stream refuses the address from here on
        if found is None:
            raise RandomnessReuse(f"the sub-stream ({purpose}, step {step}) of a site was already handed out")
        return found

    def _shares(self, words: Substream) -> dict[int, Substream]:
        shares, begun = dict[int, Substream](), 0
        for number in self._numbers:  # in order
            words.part((number - begun) * WORDS)
            shares[number], begun = words.part(WORDS), number + 1
        return shares


class _SiteStream:
    """The stream of one site."""

    def __init__(self, streams: SiteStreams, number: int) -> None:
        self._streams, self._number = streams, number

    @property
    def kind(self) -> str:
        return self._streams.kind

    def substream(self, purpose: Purpose, step: int) -> Substream:
        return self._streams.take(self._number, purpose, step)


class SiteDraws:
    """The draws at the `sites` that this process holds, in one attempt of a run."""

    def __init__(self, sites: HeldSites, stream: Stream) -> None:
        streams = SiteStreams(stream, sites.numbers)
        self._sites, self._ranges = sites, sites.ranges
        self._streams = {number: _SiteStream(streams, number) for number in sites.numbers}
        self._dealt: dict[int, Sampler] = {}

    def batches(self, sampler: Sampler, first: int) -> tuple[IntArray, ...]:
        """The units drawn in each step of the period that begins at step `first`, of all sites held; `Sampler.batches`.

        What sites have in common, such as the turns of units, each deals for its own units, once.
        """
        found = []
        for number, units in self._ranges.items():
            here, law = (first, len(units), self._streams[number]), sampler
            if isinstance(sampler, DealingSampler):
                law = self._dealt[number] = self._dealt.get(number) or sampler.begin(*here)
            promised = as_promised(law, tuple(law.batches(*here)), len(units))
            found.append([drawn + units.start for drawn in promised])
        return tuple(np.concatenate(step) for step in zip(*found, strict=True))

    def by_site(self, drawn: IntArray) -> Iterator[tuple[int, range]]:
        """Each site, and the places that its units have in a draw."""
        ends = np.searchsorted(drawn, self._sites.starts)
        for place, number in enumerate(self._sites.numbers):
            yield number, range(int(ends[place]), int(ends[place + 1]))

    def chunks(self, drawn: IntArray, units: int) -> list[tuple[int, range]]:
        """The site of each chunk (its lane has the same number) and its places in a draw; at most `units` in each."""
        return [
            (number, places[i : i + units])
            for number, places in self.by_site(drawn)
            for i in range(0, len(places), units)
        ]

    def words(self, number: int, purpose: Purpose, step: int) -> Substream:
        """Random words of one site for another purpose."""
        return self._streams[number].substream(purpose, step)
