"""The gradients of examples for several layers that are alike, in one tensor: one call measures or sums them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from discreet.clipping.rules.numbers import squared_norms, weighted_sum


class Stack:
    """`rows`: the gradients of examples for several layers, shape (batch, layers, *shape of a gradient). `groups`:
    neighbours of the same group have the same weights."""

    def __init__(self, gradients: list[Tensor], groups: Sequence[int]) -> None:
        self.rows = torch.stack(gradients, 1)
        self._group_of: list[slice] = []
        self._summed: dict[int, tuple[Tensor, Tensor]] = {}  # weights and sums, by the first layer of a group
        for _, group in groupby(groups):
            first, count = len(self._group_of), len([*group])
            self._group_of += [slice(first, first + count)] * count

    def squares(self) -> Tensor:
        """The squared norms: float64, shape (layers, batch)."""
        return squared_norms(self.rows.flatten(0, 1)).view(self.rows.shape[:2]).T.contiguous()

    def total(self, place: int, weights: Tensor) -> Tensor:
        """The weighted sum over examples for one layer. Layers of a group are summed in one call; one that comes with
        weights that are another object, such as a copy on its device, is summed by itself."""
        group = self._group_of[place]
        if group.start not in self._summed:
            self._summed[group.start] = weights, weighted_sum(weights, self.rows[:, group])
        known, sums = self._summed[group.start]
        return sums[place - group.start] if known is weights else weighted_sum(weights, self.rows[:, place])
