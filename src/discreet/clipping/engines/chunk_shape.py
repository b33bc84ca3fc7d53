"""Engines in another precision, and with chunks of a fixed number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from discreet.clipping.clip import Clip
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Units


def under_autocast(clipped_sum: ClippedSums, dtype: torch.dtype) -> ClippedSums:
    """The engine with the model and the loss under `torch.autocast`. Norms and sums are both formed from what the model
    computed, without autocast."""

    def wrapped(
        model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None = None
    ) -> Mapping[str, Tensor]:
        with torch.autocast(inputs.device.type, dtype):
            return clipped_sum(model, criterion, inputs, targets, clip, units)

    return wrapped


def in_fixed_rows(clipped_sum: ClippedSums, rows: int) -> ClippedSums:
    """The engine with chunks filled up to a multiple of `rows` rows, so that a compiler or a GPU sees one shape. The
    padding consists of copies of the first row, which contribute nothing."""

    def wrapped(
        model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None = None
    ) -> Mapping[str, Tensor]:
        missing = -len(inputs) % rows
        if missing == 0:
            return clipped_sum(model, criterion, inputs, targets, clip, units)
        given = Units((1,) * len(inputs)) if units is None else units
        filled = replace(given, sizes=(*given.sizes, *[1] * missing), padding=missing)
        inputs, targets = (torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) for part in (inputs, targets))
        return clipped_sum(model, criterion, inputs, targets, clip, filled)

    return wrapped
