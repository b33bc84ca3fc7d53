"""The augmented views of a chunk: each row is repeated once per view, and then transformed."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from discreet.clipping import Chunk, Units
from discreet.core.errors import InputError
from discreet.data import PrivateData


def views_of(data: PrivateData, chunk: Chunk) -> Chunk:
    """The chunk for the engine; the views of a row stand side by side.

    All views of a unit's rows count as its rows, so their mean gradient is clipped as a whole.
    """
    if data.transform is None:
        return chunk
    views = data.views
    if views > 1:
        units = chunk.grouped()
        units = Units(tuple(views * size for size in units.sizes), at_most=views * units.at_most)
        inputs, targets = (part.repeat_interleave(views, 0) for part in (chunk.inputs, chunk.targets))
        chunk = Chunk(inputs, targets, units)
    return replace(chunk, inputs=transformed(data, chunk.inputs))


def transformed(data: PrivateData, inputs: Tensor) -> Tensor:
    """The inputs after the data's transform; `InputError` if it changes their number."""
    if data.transform is None:
        return inputs
    found = data.transform(inputs)
    if not isinstance(found, Tensor) or found.dim() == 0 or len(found) != len(inputs):
        what = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"the transform of the augmented data returned {what} for {len(inputs)} rows; return as many")
    return found.detach()
