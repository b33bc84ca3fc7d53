"""Clipped sums in whole numbers: the same sum in any order, so neither the number of processes nor the way in which
they add shows in it.

Each chunk's sum is rounded to a grid that is `fold` bits finer than that of the step. From there on int64 is added; the
total is rounded to the grid of the step, once.

Sensitivity. Two neighbouring sums, as computed, differ by the sensitivity of one process's sum before rounding (clip
and float slack; see `clipping.accumulate`), and by what is rounded: at most r chunks by half a fine grid step each, in
both sums, and the total by half a step of the grid in both. So d coordinates add (grid + r fine) sqrt(d) to the norm of
the difference, and r is at most the number of chunks of the largest batch, which is public. Sums of `exact` are on the
grid: nothing is rounded, `fold` is 0, and nothing is added.

Nothing overflows: a coordinate of the sum is at most the largest batch times the clip's spread, and `fold` leaves two
bits above that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet.clipping import BIT, Clip, Engine
from discreet.clipping.host_memory import OnDevice, on_host
from discreet.core.array_types import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.release import ClippedSum, Share
from discreet.distributed.ranks import Ranks
from discreet.mechanism.grid import compiled

_MORE, _MOST = 6, 10
"""The fine grid is so many bits finer than the number of chunks asks for, and at most so many finer than the step's."""

_BITS = 62
"""Multiples of the fine grid stay below 2^62."""

SHARE = "share"

NOT_ON_GRID = "the sum of one process is not on its grid; nothing was released for this step"


@dataclass(frozen=True, slots=True)
class FineGrid:
    """The grid of chunks: `fold` bits finer than `grid`. `chunks`: at most so many has a batch, over all processes.
    `sensitivity`: how far one unit moves the sum of `shapes`, in L2 norm."""

    shapes: Mapping[str, tuple[int, ...]]
    grid: float
    chunks: int
    fold: int
    sensitivity: float

    @classmethod
    def of(
        cls, shapes: Mapping[str, tuple[int, ...]], engine: Engine, clip: Clip, largest_batch: int, chunks: int
    ) -> FineGrid:
        """The fine grid of a step whose batch has at most `chunks` chunks. Public facts only.

        `PrivacyViolation` if the noise is so small that whole numbers cannot hold the sum on its grid.
        """
        if engine.error is None:
            _bits_left(clip, largest_batch, 0.0)
            return cls(shapes, clip.grid, chunks, 0, clip.sensitivity)
        fold = min(_MOST, (chunks - 1).bit_length() + _MORE, _bits_left(clip, largest_batch, engine.error))
        root = math.sqrt(sum(math.prod(shape) for shape in shapes.values()))
        slack = 2 * engine.error * clip.spread * largest_batch
        rounding = (clip.grid + chunks * math.ldexp(clip.grid, -fold)) * root
        return cls(shapes, clip.grid, chunks, fold, (clip.sensitivity + slack + rounding) * (1 + 2.0**-48))

    @property
    def fine(self) -> float:
        """One step of the fine grid, a power of two."""
        return math.ldexp(self.grid, -self.fold)


def _bits_left(clip: Clip, largest_batch: int, error: float) -> int:
    """The most bits by which whole numbers can be finer than the clip's grid and hold the sum of the largest batch."""
    largest = largest_batch * max(clip.spread, clip.bit) * (1 + error) / clip.grid
    left = _BITS - math.frexp(largest)[1]
    if left < 0:
        raise PrivacyViolation("the noise is too small for a sum in whole numbers; nothing was released for this step")
    return left


class SumsOnGrid:
    """Base of sums in whole numbers, for replicated and for sharded weights.

    Chunks are rounded, and whole numbers kept, where they are: on the processor or on a graphics card.
    """

    def __init__(self, grid: FineGrid) -> None:
        self._unusable, self._unusable_there = 0, list[Tensor]()
        self._grid = grid
        self._handed_over = False

    @property
    def unusable(self) -> int:
        """The count of coordinates of chunks' sums that were not finite or did not fit the grid. They were left out, so
        the sum of the step must not be used."""
        if self._unusable_there:
            self._unusable += int(torch.stack(self._unusable_there).sum())
            self._unusable_there = []
        return self._unusable

    @property
    def public(self) -> list[float]:
        """The facts that must be the same in all processes that add their sums: the fine grid and the sensitivity."""
        return [self._grid.grid, self._grid.fold, self._grid.chunks, self._grid.sensitivity]

    @property
    def size(self) -> int:
        """The number of coordinates of the sum."""
        return sum(math.prod(shape) for shape in self._grid.shapes.values())

    def sensitivity(self, engine: Engine, clip: Clip, largest_batch: int) -> float:
        """The most that one unit can move the sum, in L2 norm; nothing in it depends on rows."""
        if FineGrid.of(self._grid.shapes, engine, clip, largest_batch, self._grid.chunks) != self._grid:
            raise PrivacyViolation(
                "the sum of a step was formed for another clip, engine or batch than it is asked for"
            )
        return self._grid.sensitivity

    def settle(self) -> None:
        """Let the other processes finish what they compute, where they need this one for it."""

    def _hand_over(self) -> None:
        if self._handed_over:
            raise PrivacyViolation("the sum of a batch was asked for twice")
        self._handed_over = True

    def _multiples(self, values: Tensor, into: Tensor) -> None:
        """Add a chunk's clipped sum to whole numbers, rounded to the fine grid, where these lie."""
        flat = values.detach().reshape(-1).to(into.device)
        if into.device.type == "cpu":
            found = np.ascontiguousarray(flat.numpy())
            if found.dtype != np.float32:
                found = found.astype(np.float64, copy=False)
            self._unusable += compiled().add_multiples(found, into.numpy(), self._grid.fine, 2.0**_BITS)
        else:
            self._multiples_there(flat, into)

    def _multiples_there(self, values: Tensor, into: Tensor) -> None:
        """The same on a graphics card, bit for bit, without waiting for it.

        Numbers in single precision stay so: to multiply them by a power of two is exact, unless they are too large to
        fit or round to zero, and so is the nearest whole number.
        """
        exact = values.dtype == torch.float32 and 2.0**-60 < self._grid.fine < 2.0**60
        units = ((values if exact else values.double()) * (1 / self._grid.fine)).round_()
        wrong = ~(units.abs() < 2.0**_BITS)  # also NaN
        into += units.masked_fill_(wrong, 0.0).long()
        self._unusable_there.append(wrong.sum())

    def _folded(self, own: Tensor) -> Array:
        """The sum of all processes on the grid of the step, on the host, in the memory of its multiples if these lie
        there."""
        multiples = on_host(own).numpy()
        compiled().folded(multiples, self._grid.fold, self._grid.grid)
        return multiples.view(np.float64)  # exact below 2^52 steps of the grid; the mechanism refuses more


class WholeSums(SumsOnGrid):
    """The sum over the chunks of one process, and with those of the others the sum of a step: `clipping.Accumulator` of
    several processes. `parts`: the numbers that come to this process."""

    def __init__(self, grid: FineGrid, ranks: Ranks) -> None:
        super().__init__(grid)
        self._ranks = ranks
        self._each = -(-self.size // ranks.size)
        start = min(ranks.rank * self._each, self.size)
        self.parts = ((start, min(start + self._each, self.size)),)
        self._total: Tensor | None = None  # until the first chunk
        self._places: dict[str, slice] = {}
        start = 0
        for name, shape in grid.shapes.items():
            self._places[name] = slice(start, start + math.prod(shape))
            start += math.prod(shape)

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped sums of one chunk, rounded to the fine grid, on the device of the first chunk."""
        if self._handed_over:
            raise PrivacyViolation("a chunk was added to the sum of a batch after it was handed over")
        for name, place in self._places.items():
            if self._total is None:
                self._total = self._zeros(sums[name].device)
            self._multiples(sums[name], self._total[place])

    def total(self, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
        """The share of this process in the sum over all, on the grid, with the sensitivity of the whole. It can be
        taken once. All processes exchange their sums here."""
        self._hand_over()
        sensitivity = self.sensitivity(engine, clip, largest_batch)
        own, self._total = self._total, None
        share = self._ranks.added_share(self._zeros(self._ranks.device) if own is None else own, self._each)
        del own
        ((start, stop),) = self.parts
        values = self._folded(share[: stop - start])
        return ClippedSum({SHARE: values}, sensitivity, self._grid.grid, Share(self.parts, self.size, self._handed_out))

    def _handed_out(self, share: Array) -> Mapping[str, Array]:
        """The shares of all processes, put together: every tensor whole."""
        padded = share
        if len(share) < self._each:
            padded = np.zeros(self._each, share.dtype)
            padded[: len(share)] = share
        whole = self._ranks.gathered(torch.from_numpy(padded), self._each)
        if bool(whole[:: self._each].isnan().any()):
            raise PrivacyViolation(NOT_ON_GRID)
        parts = {name: whole[place].view(self._grid.shapes[name]) for name, place in self._places.items()}
        return {name: one.numpy() for name, one in parts.items()} if whole.device.type == "cpu" else OnDevice(parts)

    def _zeros(self, device: torch.device) -> Tensor:
        return torch.zeros(self._each * self._ranks.size, dtype=torch.int64, device=device)


def shapes_of(parameters: Mapping[str, Tensor], clip: Clip) -> dict[str, tuple[int, ...]]:
    """The tensors that a step sums, in order of names: parameters, and one more coordinate, `BIT`, if the clip has a
    bit."""
    shapes = {name: tuple(one.shape) for name, one in parameters.items()} | ({BIT: (1,)} if clip.bit > 0 else {})
    return dict(sorted(shapes.items()))
