"""The gradients of examples for several layers that are alike, in one tensor: one call measures or sums them all."""

from __future__ import annotations

import torch
from torch import Tensor

from discreet.clipping.rules.numbers import squared_norms, weighted_sum


class Stack:
    """`rows`: the gradients of examples for several layers, shape (batch, layers, *shape of a gradient)."""

    def __init__(self, gradients: list[Tensor]) -> None:
        self.rows = torch.stack(gradients, 1)
        self._weights: Tensor | None = None
        self._sums: Tensor | None = None

    def squares(self) -> Tensor:
        """The squared norms: float64, shape (layers, batch)."""
        return squared_norms(self.rows.flatten(0, 1)).view(self.rows.shape[:2]).T.contiguous()

    def total(self, place: int, weights: Tensor) -> Tensor:
        """The weighted sum over examples for one layer. Layers with the same weights are summed in one call."""
        if self._sums is None or self._weights is not weights:
            self._weights, self._sums = weights, weighted_sum(weights, self.rows)
        return self._sums[place]
