"""Geometry: public scales, one for each number of the parameters, in which gradients are clipped and noise is shaped.

Gradients are divided by the scales, clipped and summed; the mechanism adds the same noise to every coordinate, and the
release is multiplied by the scales. So the noise on a number is proportional to its scale. The event is unchanged:
dividing by public constants before a mechanism, and multiplying after it, costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.core.release import Release


class Geometry(Protocol):
    """Gives the scales of each step, from releases and public values only.

    `name`: its name in plans and certificates. `scales`: by parameter name, a tensor in the shape of each trained
    parameter; all numbers are finite and positive. The state is kept in checkpoints: tensors and plain values.
    """

    @property
    def name(self) -> str: ...

    def scales(self) -> Mapping[str, Tensor]: ...

    def update(self, release: Release, noise: float, divisor: float) -> None:
        """Learn from a step. `release` is still divided by the scales, and its noise has standard deviation `noise` on
        every coordinate. The optimizer got release x scales / divisor."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Fixed:
    """Scales that stay as they are. They are public: no private data was used to choose them."""

    name = "fixed"

    def __init__(self, scales: Mapping[str, Tensor]) -> None:
        self._scales = dict(scales)

    def scales(self) -> Mapping[str, Tensor]:
        """The given scales."""
        return self._scales

    def update(self, release: Release, noise: float, divisor: float) -> None:
        """Do nothing: the scales stay fixed."""

    def state_dict(self) -> dict[str, Any]:
        """The scales, so that a resumed run can notice different ones."""
        return {"scales": dict(self._scales)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """`InputError` if the run was started with other scales."""
        same = set(state["scales"]) == set(self._scales)
        if not same or any(not torch.equal(state["scales"][name], one) for name, one in self._scales.items()):
            raise InputError("the run was started with other fixed scales; go on with the same ones")


def checked_scales(scales: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the scales in float64, on the devices of the parameters; `InputError` for invalid scales."""
    if set(scales) != set(parameters):
        wrong = ", ".join(sorted(set(scales) ^ set(parameters)))
        raise InputError(f"scales: one tensor for each trained parameter is needed; missing or too many: {wrong}")
    found = {}
    for name, parameter in parameters.items():
        scale = scales[name].detach()
        if scale.shape != parameter.shape:
            raise InputError(f"scales: {name!r} has shape {tuple(scale.shape)}, its parameter {tuple(parameter.shape)}")
        found[name] = scale.to(device=parameter.device, dtype=torch.float64, copy=True)
        least, most = found[name].aminmax() if scale.numel() else (1.0, 1.0)
        if not (least > 0 and most < math.inf):  # also true for NaN
            raise InputError(f"scales: {name!r} holds a number that is not finite and positive")
    return found
