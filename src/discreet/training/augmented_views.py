"""The augmented views of a chunk: each row is repeated once per view, and then transformed."""

from __future__ import annotations

from torch import Tensor

from discreet.clipping import Units
from discreet.core.errors import InputError
from discreet.data import PrivateData


def views_of(
    data: PrivateData, inputs: Tensor, targets: Tensor, units: Units | None
) -> tuple[Tensor, Tensor, Units | None]:
    """Inputs, targets and units of a chunk for the engine; the views of a row stand side by side.

    All views of a unit's rows count as its rows, so their mean gradient is clipped as a whole.
    """
    if data.transform is None:
        return inputs, targets, units
    views = data.views
    if views > 1:
        units = Units((1,) * len(inputs)) if units is None else units
        units = Units(tuple(views * size for size in units.sizes), at_most=views * units.at_most)
        inputs, targets = inputs.repeat_interleave(views, 0), targets.repeat_interleave(views, 0)
    return transformed(data, inputs), targets, units


def transformed(data: PrivateData, inputs: Tensor) -> Tensor:
    """The inputs after the data's transform; `InputError` if it changes their number."""
    if data.transform is None:
        return inputs
    found = data.transform(inputs)
    if not isinstance(found, Tensor) or found.dim() == 0 or len(found) != len(inputs):
        what = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"the transform of the augmented data returned {what} for {len(inputs)} rows; return as many")
    return found.detach()
