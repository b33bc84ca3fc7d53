"""Clipped sums of a chunk: how whatever forms them is called, and the sums of no rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.clip import BIT, Clip
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Chunk


class ClippedSums(Protocol):
    """From a chunk of at least one row to clipped sums by parameter name, in the type in which they were formed and in
    memory of their own. If the clip has a bit, the sum of the bits is added under `BIT`.

    Where units have several rows, the gradient of the mean of a unit's losses is clipped as a whole. A row whose
    gradient is not finite makes its whole unit contribute zero.
    """

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]: ...


def sums_of_none(model: nn.Module, clip: Clip) -> dict[str, Tensor]:
    """The clipped sums of no units: float64 zeros for each parameter, and for the bit if the clip has one."""
    parameters = private_parameters(model).items()
    zeros = {name: torch.zeros(one.shape, dtype=torch.float64, device=one.device) for name, one in parameters}
    bit = {BIT: next(iter(zeros.values())).new_zeros(1)} if clip.bit else {}  # on the device of what it is added to
    return zeros | bit
