"""Adding up the chunks of a batch, and the sensitivity of the sum: how far one unit can move it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet.clipping.clip import BIT, Clip
from discreet.clipping.engines.engine import Engine
from discreet.clipping.host_memory import on_host
from discreet.core.array_types import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.release import ClippedSum
from discreet.mechanism.grid import rounded


class Accumulator:
    """A float64 sum over chunks, with one more coordinate, `BIT`, if `bit`. Chunks are added up on their device, and
    their sum is brought to the host once.

    Without any chunk the sum is zero, which is released like any other sum. `parts`: that of a process that has all
    numbers.
    """

    parts = None

    def __init__(self, parameters: Mapping[str, Tensor], bit: bool = False) -> None:
        self._shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        if bit:
            self._shapes[BIT] = (1,)
        self._totals: dict[str, Tensor] = {}
        self._own: set[str] = set()  # names whose totals lie in memory made here; only such memory is written to
        self._handed_over = False

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped sums of one chunk, in float64. The sums of the first chunk are kept as they are and never
        written to, since autograd may have returned one tensor for several parameters."""
        if self._handed_over:
            raise PrivacyViolation("a chunk was added to the sum of a batch after it was handed over")
        for name in self._shapes:
            part = sums[name].detach()
            before = self._totals.get(name)
            if before is None:
                self._totals[name] = part
            else:
                total = before if name in self._own else torch.empty_like(before, dtype=torch.float64)
                self._totals[name] = _added(before, part, total)
                self._own.add(name)

    @property
    def size(self) -> int:
        """The number of coordinates of the sum."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    def sensitivity(self, engine: Engine, clip: Clip, largest_batch: int) -> float:
        """The most that one unit can move the sum, in L2 norm; nothing in it depends on rows.

        Engine `exact`: the sum is on the grid already, and one unit moves it by at most the sensitivity of the clip
        (C for flat clipping). Other engines: two neighbouring sums, as computed, differ by at most that + slack, where
        slack = 2 x error x spread x `largest_batch`, since both sums err, for every example whose chunk changed (the
        spread is C for flat clipping). Rounding moves each of d coordinates by at most half a grid step in each sum,
        which adds at most grid x sqrt(d) to the norm of the difference.
        """
        if engine.error is None:
            return clip.sensitivity
        slack = 2 * engine.error * clip.spread * largest_batch
        return (clip.sensitivity + slack + clip.grid * math.sqrt(self.size)) * (1 + 2.0**-50)

    def total(self, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
        """The sum, rounded to the grid once, with its sensitivity in exact arithmetic. Sums in single precision are
        rounded when they are released, in one pass with the noise.

        The memory of the sum is handed over: a second call is a `PrivacyViolation`, and nothing may be added later.
        """
        if self._handed_over:
            raise PrivacyViolation("the sum of a batch was asked for twice")
        if (BIT in self._shapes) != (clip.bit > 0):
            raise PrivacyViolation("the clip has a bit and the sum has none, or the other way round")
        self._handed_over = True
        totals = {name: self._settled(name, shape) for name, shape in self._shapes.items()}
        sensitivity = self.sensitivity(engine, clip, largest_batch)
        if engine.error is None:
            on_grid = {name: total.astype(np.float64, copy=False) for name, total in totals.items()}
            return ClippedSum(on_grid, sensitivity, clip.grid)
        of_double = {name: rounded(total, clip.grid) for name, total in totals.items() if total.dtype != np.float32}
        return ClippedSum(totals | of_double, sensitivity, clip.grid)

    def _settled(self, name: str, shape: tuple[int, ...]) -> Array:
        """The total in memory that may be written to; in single precision as it is, since nothing writes to that."""
        if name not in self._totals:
            return np.zeros(shape)
        own = name in self._own or self._totals[name].device.type != "cpu"
        total = on_host(self._totals.pop(name)).numpy()
        as_given = not own and total.dtype != np.float32
        return np.array(total, order="C") if as_given else np.asarray(total, order="C")


def _added(one: Tensor, other: Tensor, out: Tensor) -> Tensor:
    """`out`, overwritten with the sum in float64; it may be one of the two."""
    if out.device.type == "cpu":  # one pass, where torch makes three of mixed types
        np.add(one.numpy(), other.numpy(), out=out.numpy(), dtype=np.float64)
        return out
    return torch.add(one.double(), other, out=out)
