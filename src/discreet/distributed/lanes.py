"""Lanes: fixed parts of every batch, which processes share out. A lane holds the same units wherever it is computed."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.core.array_types import IntArray


@dataclass(frozen=True, slots=True)
class Lanes:
    """The batch in `count` lanes, of which process `rank` of `size` computes every `size`-th.

    Lane l has the units at places l, l + count, l + 2 count, ... of the draw. `count` is a public number of the run;
    the number of processes is not.
    """

    count: int
    rank: int = 0
    size: int = 1

    def chunks(self, drawn: int, units: int) -> list[tuple[int, range]]:
        """The lane of each chunk of this process and its places in a draw of `drawn` units; at most `units` in each."""
        found = []
        for lane in range(self.rank, self.count, self.size):
            places = range(lane, drawn, self.count)
            found += [(lane, places[i : i + units]) for i in range(0, len(places), units)]
        return found

    def most_chunks(self, largest_batch: int, units: int) -> int:
        """The most chunks of a batch, over all processes."""
        return -(-largest_batch // units) + self.count


@dataclass(frozen=True, slots=True)
class Drawn:
    """The units that a process has drawn for a step. `units`: those of the whole batch or, where the data lies at
    sites, those at its own. `alike`: a digest of what all processes draw alike."""

    units: IntArray
    alike: str
