"""Which way the gradient of a tensor goes, in a form that can be compared between passes.

The record knows a tensor by its place in memory. Two tensors may have that in common, as one and its view have, and yet
lead to other gradients.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import torch
from torch import Tensor

from discreet.clipping.separation.recording.program import Ref


class Edges:
    """The nodes of torch's graph that tensors of a pass come from, each by the operator that was recorded next when it
    was made, and by its place among those made since the one before. torch numbers the nodes of a thread in their
    order."""

    def __init__(self) -> None:
        self._counts = [_count()]
        self._known: dict[tuple[int, int], str] = {}

    def operator(self) -> None:
        """Note that an operator is recorded."""
        self._counts.append(_count())

    def of(self, tensor: Tensor, parameters: Mapping[int, Ref]) -> str:
        """The edge of a tensor that requires a gradient; of a view, with that of its base, on which its node is made
        anew after a write. `parameters`: origins by ids."""
        own, base = self._of(tensor, parameters), tensor._base if tensor._is_view() else None
        return own if base is None or not base.requires_grad else f"{own} of {self._of(base, parameters)}"

    def _of(self, tensor: Tensor, parameters: Mapping[int, Ref]) -> str:
        node = tensor.grad_fn
        if node is None:
            parameter = parameters.get(id(tensor))
            return "a leaf" if parameter is None else f"parameter {parameter.at}"
        key = node._sequence_nr(), tensor.output_nr
        if key not in self._known:
            number = bisect_right(self._counts, key[0])
            self._known[key] = f"{number}.{key[0] - self._counts[number - 1]}.{key[1]}"
        return self._known[key]


def _count() -> int:
    """The number that torch will give to the next node."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
