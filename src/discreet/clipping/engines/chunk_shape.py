"""Engines in another precision, and with chunks of a fixed number of rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from discreet.clipping.clip import Clip
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Chunk


def under_autocast(clipped_sum: ClippedSums, dtype: torch.dtype) -> ClippedSums:
    """The engine with the model and the loss under `torch.autocast`. Norms and sums are both formed from what the model
    computed, without autocast."""

    def wrapped(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        with torch.autocast(chunk.inputs.device.type, dtype):
            return clipped_sum(model, criterion, chunk, clip)

    return wrapped


def in_fixed_rows(clipped_sum: ClippedSums, rows: int) -> ClippedSums:
    """The engine with chunks filled up to a multiple of `rows` rows, so that a compiler or a GPU sees one shape. The
    padding consists of copies of the first row, which contribute nothing."""

    def wrapped(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        return clipped_sum(model, criterion, chunk.filled(-len(chunk.inputs) % rows), clip)

    return wrapped
