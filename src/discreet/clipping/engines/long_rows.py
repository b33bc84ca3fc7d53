"""Rows with long numbers, taken one unit at a time.

Beside a long number all that a model adds is lost in rounding: biases, the epsilon of a norm. Then rounding alone
decides the branch of a ReLU or the direction of what is normalised, and kernels round differently for chunks of
different lengths. So a row that comes or goes could change what other, long rows contribute, each by up to twice the
clip norm. Taken alone, by one backward pass, a row contributes what depends on itself only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet.clipping.clip import Clip
from discreet.clipping.engines.engine import ClippedSums, Gradients
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Units

LONG_TARGET = 2.0**20
"""Targets with larger numbers are long."""

_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch hardly computes with."""


@dataclass(frozen=True, slots=True)
class LongAlone:
    """The sum of a chunk by the engine `together`, but for its long units; these are `alone`'s, which takes rows one at
    a time. Long are units with a number beyond `reach` in a row, or beyond `LONG_TARGET` in a target.

    Whether a unit is long depends on its own rows only. One with a number that is not finite is.
    """

    together: ClippedSums
    alone: ClippedSums
    reach: float

    def __call__(
        self,
        model: nn.Module,
        criterion: Criterion,
        inputs: Tensor,
        targets: Tensor,
        clip: Clip,
        units: Units | None = None,
    ) -> Gradients:
        limits = ((inputs, self.reach), (targets, LONG_TARGET))
        if not any(_any_beyond(part, limit) for part, limit in limits):
            return self.together(model, criterion, inputs, targets, clip, units)
        counted = Units((1,) * len(inputs) if units is None else units.sizes[: len(units) - units.padding])
        rows = torch.stack([beyond(part[: counted.rows], limit) for part, limit in limits]).any(0).cpu()
        long = torch.zeros(len(counted)).index_add_(0, counted.owners, rows.float()) > 0
        sums = []
        for engine, chosen in ((self.together, ~long), (self.alone, long)):
            if bool(chosen.any()):
                kept = counted.spread(chosen).nonzero().flatten().to(inputs.device)
                held = None if units is None else Units(tuple(counted.counts[chosen].tolist()))
                sums.append(engine(model, criterion, inputs[kept], targets[kept], clip, held))
        return sums[0] if len(sums) == 1 else {name: sums[0][name].double() + sums[1][name] for name in sums[0]}


def beyond(part: Tensor, limit: float) -> Tensor:
    """Which rows have a number beyond the limit, or one that is not finite: shape (rows,)."""
    numbers = _numbers(part)
    if numbers is None:
        return torch.zeros(len(part), dtype=torch.bool, device=part.device)
    if not numbers.is_floating_point():
        numbers = numbers.double()  # the least of a type has no absolute value in it
    return ~(numbers.abs() <= limit).reshape(len(part), -1).all(1)


def _any_beyond(part: Tensor, limit: float) -> bool:
    numbers = _numbers(part)
    if numbers is None or (limit == math.inf and not numbers.is_floating_point()):
        return False
    least, most = torch.aminmax(numbers)
    return not (least.item() >= -limit and most.item() <= limit)  # also if one is not a number


def _numbers(part: Tensor) -> Tensor | None:
    """The numbers of a tensor, both parts of complex ones; None for truth values, and where there is none."""
    if part.dtype == torch.bool or not part.numel():
        return None
    part = torch.view_as_real(part.detach().resolve_conj()) if part.is_complex() else part.detach()
    return part.double() if part.dtype in _WIDE_UNSIGNED else part
