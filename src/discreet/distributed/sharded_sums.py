"""Clipped sums of a model whose weights are shared out: each process keeps the sums of the numbers that it holds.

Why a run that is sharded is as private as one that is not, and releases the same bits.

- **Sensitivity.** A chunk is computed by one process, with whole layers, so its norms and its clipped sum are those
  that it has everywhere. That sum is rounded to the fine grid (`whole_sums.FineGrid`) before anything is sent: one
  rounding for each chunk and number, as without shards. From there on whole numbers are added, in an exchange for
  every chunk instead of one for every step; the order does not matter. The total is rounded to the grid of the step
  once. So the bound of `FineGrid` holds as it is: at most as many roundings as the largest batch has chunks.
- **Layer by layer.** With `bookkeeping`, sums are formed as they are sent, one layer after the other
  (`bookkeeping.sums_to_form`). All norms and clip factors of the chunk are known before, and its program is proved;
  what is left is arithmetic on tensors that were measured and are no parts of weights, which are gone by then (a
  module that is given such a part is refused, `gathered_layers`). If
  memory ends there, the step ends in all processes: no chunk is added in part. Nothing else is known to fail there; if
  it did, the step would end too, with a message that has no words of a row (`sharded_engine.AfterPass`).
- **Rows apart.** Chunks are computed in step (`lockstep`). A chunk that fails, or runs something else than what was
  proved, adds nothing; its units are then tried one by one, and each adds what it adds alone, or nothing. Whoever has
  no chunk left gathers weights along and adds zeros: nothing that depends on a row reaches the sum of another, and no
  process leaves out a step.
- **Once.** `Team.check_step` ends the step unless the processes have added as many units as were drawn.
- **Noise.** Number i of a release gets the noise that one process would give it, from its place in the one stream,
  drawn by the one process that holds number i. Parts of processes do not overlap, and together they are all numbers:
  nothing gets noise twice, nothing gets none, and nothing is divided by the number of processes. The noise is scaled by
  the sensitivity of the whole sum, of all parts together.
- **Afterwards** each process divides by the public constant and steps with its own numbers: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from discreet.clipping import Clip, Engine
from discreet.core.array_types import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.release import ClippedSum, Share
from discreet.distributed.lockstep import Lockstep
from discreet.distributed.ranks import Ranks
from discreet.distributed.weight_shards import Place
from discreet.distributed.whole_sums import NOT_ON_GRID, SHARE, FineGrid, SumsOnGrid

A = TypeVar("A", Array, Tensor)


class ShardedSums(SumsOnGrid):
    """The sum of a step over the chunks of all processes, of which this one keeps its own numbers, those of `parts`."""

    def __init__(self, grid: FineGrid, ranks: Ranks, lockstep: Lockstep) -> None:
        super().__init__(grid)
        self._ranks, self._lockstep, self._shards = ranks, lockstep, lockstep.shards
        self.parts = self._shards.parts()
        own = sum(stop - start for start, stop in self.parts)
        self._own = torch.zeros(own, dtype=torch.int64, device=ranks.device)
        self._places = self._in_places(self._own)
        lockstep.adds = self._adds

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped sums of one chunk, rounded to the fine grid. All processes add theirs here, or nothing."""
        self._lockstep.add(sums)

    def settle(self) -> None:
        """Take part in what the other processes compute, until all are at the end of the step."""
        self._lockstep.settle()

    def total(self, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
        """The numbers of this process in the sum over all, on the grid, with the sensitivity of the whole. It can be
        taken once."""
        self._hand_over()
        sensitivity = self.sensitivity(engine, clip, largest_batch)
        self._lockstep.adds = None
        values = self._folded(self._own)
        self._own, self._places = torch.zeros(0, dtype=torch.int64), {}
        share = Share(self.parts, self.size, self._handed_out)
        return ClippedSum({SHARE: values}, sensitivity, self._grid.grid, share)

    def _adds(self, sums: Mapping[str, Tensor] | None) -> None:
        """Add what all processes bring, unit by unit of weights: sums that are formed when they are asked for are there
        for one unit at a time, and so are whole numbers."""

        def fill(name: str, places: Iterator[Place]) -> None:
            assert sums is not None
            flat = sums[name].reshape(-1)
            for start, stop, into in places:
                self._multiples(flat[start:stop], into)

        for unit in self._shards.units:
            for name, part in self._shards.added(unit, None if sums is None else fill).items():
                self._places[name] += part

    def _handed_out(self, share: Array) -> dict[str, Array]:
        """The part of each tensor that this process steps with, flat."""
        wrong = bool(np.isnan(share[:1]).any())
        if any(self._ranks.all_facts("the noise of a step", wrong)):
            raise PrivacyViolation(NOT_ON_GRID)
        return self._in_places(share)

    def _in_places(self, own: A) -> dict[str, A]:
        """This process's part of each tensor: flat views of `own`."""
        found, start = {}, 0
        for name, (first, after) in zip(self._grid.shapes, self._shards.parts(), strict=True):
            found[name] = own[start : start + after - first]
            start += after - first
        return found
