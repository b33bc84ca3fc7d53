"""The weights of a model of which each process keeps a part, and what puts the parts together again.

Of each parameter, process r of W has the numbers r k to (r + 1) k: one W-th, in blocks of 64. So every number lies in
one process, whatever the number of processes is, and an optimizer that treats each number by itself does what it would
do with the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet.distributed.ranks import Ranks
from discreet.distributed.weight_units import WeightUnit, weight_units

_BLOCK = 64

Place = tuple[int, int, Tensor]
"""The first number of a part of a tensor, the one after its last, and where they are written."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The split of a parameter: `each` numbers for every process; the last ones may have fewer, or none."""

    shape: torch.Size
    dtype: torch.dtype
    each: int

    @classmethod
    def of(cls, parameter: Tensor, processes: int) -> Cut:
        """The cut of a parameter."""
        blocks = -(-parameter.numel() // _BLOCK)
        return cls(parameter.shape, parameter.dtype, -(-blocks // processes) * _BLOCK)

    def part(self, rank: int) -> tuple[int, int]:
        """The first number of a process, and the one after its last."""
        count = self.shape.numel()
        return min(count, rank * self.each), min(count, (rank + 1) * self.each)


class WeightShards:
    """The shards of the parameters of `model` in this process; the memory of the whole parameters is freed.

    `own`: its part of each, flat. `pieces`: of those that are trained, as parameters for an optimizer. `units`: those
    that are gathered together.
    """

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self._ranks = ranks
        self.units: Sequence[WeightUnit] = weight_units(model)
        self.cuts: dict[str, Cut] = {}
        self.own: dict[str, Tensor] = {}
        self.pieces: dict[str, nn.Parameter] = {}
        for name, parameter in model.named_parameters():
            cut = self.cuts[name] = Cut.of(parameter, ranks.size)
            start, stop = cut.part(ranks.rank)
            part = parameter.detach().reshape(-1)[start:stop].clone()
            if parameter.requires_grad:
                self.pieces[name] = nn.Parameter(part)
                part = self.pieces[name].detach()
            self.own[name] = part
        self.shapes = {name: tuple(self.cuts[name].shape) for name in sorted(self.pieces)}
        for parameter in model.parameters():
            absent(parameter)

    def parts(self) -> tuple[tuple[int, int], ...]:
        """The intervals of a release that this process holds, one for each trained parameter, in order of names."""
        found, first = [], 0
        for name in self.shapes:
            start, stop = self.cuts[name].part(self._ranks.rank)
            found.append((first + start, first + stop))
            first += self.cuts[name].shape.numel()
        return tuple(found)

    def gathered(self, unit: WeightUnit) -> dict[str, Tensor]:
        """The whole parameters of a unit, from all processes: a conversation of them all."""
        return self.whole({name: self.own[name] for name in unit.names})

    def whole(self, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of the shapes of parameters, by the names of these, of which each process has its own part."""
        padded = [_padded(part, self.cuts[name].each).view(torch.uint8) for name, part in own.items()]
        sent = torch.cat([one.to(self._ranks.device) for one in padded])
        rows = self._ranks.gathered(sent, len(sent)).view(self._ranks.size, len(sent))
        found, start = {}, 0
        for (name, part), one in zip(own.items(), padded, strict=True):
            cut = self.cuts[name]
            flat = rows[:, start : start + len(one)].reshape(-1).view(part.dtype)
            found[name] = flat[: cut.shape.numel()].view(cut.shape).to(part.device)
            start += len(one)
        return found

    def added(self, unit: WeightUnit, fill: Callable[[str, Iterator[Place]], None] | None) -> dict[str, Tensor]:
        """The part of this process of the sums over all processes, of whole numbers for each trained parameter of the
        unit. `fill` writes what this process adds to a parameter, in places of zeros; None adds nothing. A
        conversation of them all."""
        names = [name for name in unit.names if name in self.pieces]
        if not names:
            return {}
        rank, size, starts = self._ranks.rank, self._ranks.size, [0]
        for name in names:
            starts.append(starts[-1] + self.cuts[name].each)
        table = torch.zeros((size, starts[-1]), dtype=torch.int64, device=self._ranks.device)
        if fill is not None:
            for name, start in zip(names, starts[:-1], strict=True):
                parts = (self.cuts[name].part(other) for other in range(size))
                fill(
                    name, ((*part, table[other, start : start + part[1] - part[0]]) for other, part in enumerate(parts))
                )
        sums = self._ranks.added_share(table.reshape(-1), starts[-1])
        found = {}
        for name, start in zip(names, starts[:-1], strict=True):
            first, after = self.cuts[name].part(rank)
            found[name] = sums[start : start + after - first]
        return found


def absent(parameter: nn.Parameter) -> None:
    """Let go of the memory of a parameter: until it is gathered, every number of it is NaN, in one place."""
    nothing = torch.full((), torch.nan, dtype=parameter.dtype, device=parameter.device)
    parameter.data = nothing.expand(parameter.shape)


def _padded(part: Tensor, length: int) -> Tensor:
    part = part.detach()
    return part if len(part) == length else torch.cat([part, part.new_zeros(length - len(part))])
