"""Rows with long numbers, taken one unit at a time.

Beside a long number, whatever a model adds is lost in rounding: biases, the epsilon of a norm layer. Then rounding
alone decides the branch of a ReLU or the direction of a normalised vector, and kernels round differently for chunks of
different lengths. So adding or removing a row could change the contributions of other, long rows, each by up to twice
the clip norm. In a backward pass of its own, the contribution of a row depends on that row only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from discreet.clipping.clip import Clip
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Chunk, Units

LONG_TARGET = 2.0**20
"""Targets with larger numbers are long."""

_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types for which torch has hardly any operators."""


@dataclass(frozen=True, slots=True)
class LongAlone:
    """The sum of a chunk: long units by the engine `alone`, which takes rows one at a time, the others by `together`.

    A unit is long if a row holds a number beyond `reach`, a target one beyond `LONG_TARGET`, or either one that is not
    finite. So whether a unit is long depends on its own rows only.
    """

    together: ClippedSums
    alone: ClippedSums
    reach: float

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        limits = ((chunk.inputs, self.reach), (chunk.targets, LONG_TARGET))
        if not any(_any_beyond(part, limit) for part, limit in limits):
            return self.together(model, criterion, chunk, clip)
        units = chunk.grouped()
        counted = Units(units.sizes[: len(units) - units.padding])
        rows = torch.stack([beyond(part[: counted.rows], limit) for part, limit in limits]).any(0).cpu()
        long = torch.zeros(len(counted)).index_add_(0, counted.owners, rows.float()) > 0
        sums = []
        for engine, chosen in ((self.together, ~long), (self.alone, long)):
            if bool(chosen.any()):
                kept = counted.spread(chosen).nonzero().flatten().to(chunk.inputs.device)
                sizes = tuple(counted.counts[chosen].tolist())
                held = None if chunk.units is None else replace(units, sizes=sizes, padding=0)
                part = Chunk(chunk.inputs[kept], chunk.targets[kept], held)
                sums.append({**engine(model, criterion, part, clip)})
        return sums[0] if len(sums) == 1 else {name: sums[0][name].double() + sums[1][name] for name in sums[0]}


def beyond(part: Tensor, limit: float) -> Tensor:
    """Whether each row has a number beyond the limit, or one that is not finite: bool, shape (rows,)."""
    numbers = _numbers(part)
    if numbers is None:
        return torch.zeros(len(part), dtype=torch.bool, device=part.device)
    if not numbers.is_floating_point():
        numbers = numbers.double()  # the smallest integer of a type has no absolute value in that type
    return ~(numbers.abs() <= limit).reshape(len(part), -1).all(1)


def _any_beyond(part: Tensor, limit: float) -> bool:
    numbers = _numbers(part)
    if numbers is None or (limit == math.inf and not numbers.is_floating_point()):
        return False
    least, most = torch.aminmax(numbers)
    return not (least.item() >= -limit and most.item() <= limit)  # also true for NaN


def _numbers(part: Tensor) -> Tensor | None:
    """The numbers of a tensor, with complex numbers as two; None for booleans and empty tensors."""
    if part.dtype == torch.bool or not part.numel():
        return None
    part = torch.view_as_real(part.detach().resolve_conj()) if part.is_complex() else part.detach()
    return part.double() if part.dtype in _WIDE_UNSIGNED else part
