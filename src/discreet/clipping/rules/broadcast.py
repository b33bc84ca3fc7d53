"""The rule for parameters that are broadcast over the examples: a class token, places, the scale of a layer.

Where such a parameter meets the examples, each of them has a copy of it. The gradient of what the operator returns has
the examples along axis 0, and so the gradients of the copies are at hand: no module runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from discreet.clipping.rules.base import Formed
from discreet.clipping.rules.numbers import blank, wide


class Normalised(NamedTuple):
    """The input of a layer norm, with the means and the reciprocal standard deviations of its parts."""

    given: Tensor
    mean: Tensor
    scale: Tensor


Factor = Tensor | int | Normalised
"""A multiple of a gradient: of each of its numbers, or of all. Booleans choose among its numbers."""


class Use(NamedTuple):
    """An operator that broadcasts a parameter, or a view of it, over the examples, and then adds or multiplies.

    `shape`: of the view. `factor`: the derivative of what the operator returns. `ends`: the view and the parameter in
    the graph; None where the parameter itself is used.
    """

    shape: torch.Size
    factor: Factor
    ends: tuple[GradientEdge, GradientEdge] | None = None

    def of_view(self, gradient: Tensor) -> Tensor:
        """The gradients of the view for each example, shape (batch, *view shape). `gradient`: of what the operator
        returns, with the examples along axis 0."""
        found = wide(gradient)
        if isinstance(self.factor, Normalised):
            given, mean, scale = map(wide, self.factor)
            found = found * ((given - mean) * scale)
        elif isinstance(self.factor, Tensor):
            chosen = self.factor.dtype == torch.bool  # what is not chosen plays no part, even if it is not finite
            found = torch.where(self.factor, found, 0.0) if chosen else found * wide(self.factor)
        elif self.factor != 1:
            found = found * self.factor
        ahead = found.dim() - len(self.shape)
        kept = [axis >= ahead and self.shape[axis - ahead] == found.shape[axis] for axis in range(found.dim())]
        if axes := [axis for axis in range(1, found.dim()) if not kept[axis]]:
            found = found.sum(axes)
        return found.reshape(len(found), *self.shape)


def _of_parameter(rows: Tensor, ends: tuple[GradientEdge, GradientEdge] | None) -> Tensor:
    """The gradients of a parameter, from those of its view: shape (len(rows), *parameter shape). `ends`: see `Use`."""
    if ends is None:
        return rows
    view, parameter = ends
    (found,) = torch.autograd.grad((view,), (parameter,), rows, retain_graph=True, is_grads_batched=True)
    return wide(found)


class Broadcast(Formed):
    """One parameter, with all its uses: `args` are these, and `gradients` those of what they return."""

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Use, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained, self.formed = module, trained, trained
        given = [(use, one) for use, one in zip(args, gradients, strict=True) if one is not None]
        self._rows, self._ends = [use.of_view(one) for use, one in given], [use.ends for use, _ in given]
        self._count = len(self._rows[0])

    @property
    def examples(self) -> int:
        return self._count

    def bytes_per_example(self) -> int:
        return 2 * sum(rows.element_size() for rows in self._rows) * self._numbers()

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        parts = [_of_parameter(rows[start:stop], ends) for rows, ends in zip(self._rows, self._ends, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return dict.fromkeys(self.trained, total)

    def forget_captured(self) -> None:
        self._rows, self._ends = [], []

    def drop_captured(self, unusable: Tensor) -> None:
        self._rows = [blank(rows, unusable) for rows in self._rows]
