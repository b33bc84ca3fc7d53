"""Grouping equal tokens by sorting: first within each example, then over all examples."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


class EqualTokens:
    """The groups of equal tokens within each example. `tokens`: whole numbers from 0, shape (batch, length).

    Groups are ordered by example and then by token. `examples`: the example of each group. `range`: the group numbers.
    """

    def __init__(self, tokens: Tensor) -> None:
        count, length = tokens.shape
        ordered, order = _sorted(tokens)
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        self._starts = new.reshape(-1).nonzero().flatten()
        self._places = (order + length * torch.arange(count, device=tokens.device).unsqueeze(1)).reshape(-1)
        self._tokens = ordered.reshape(-1)[self._starts]
        self.examples = torch.div(self._starts, length, rounding_mode="floor")

    @property
    def range(self) -> Tensor:
        """0 .. number of groups - 1."""
        return torch.arange(len(self._starts), device=self._starts.device)

    def sums(self, values: Tensor) -> Tensor:
        """The sums of `values`, (batch x length, features), over each group: (groups, features)."""
        return F.embedding_bag(self._places, values, self._starts, mode="sum")

    def table(self, size: int, rows: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        """The sums, by token, of weights[group] x values[rows[group]]: (size, features)."""
        ordered, order = (part[0] for part in _sorted(self._tokens.unsqueeze(0)))
        tokens = torch.arange(size, device=ordered.device)
        starts = torch.searchsorted(ordered, tokens)
        return F.embedding_bag(rows[order], values, starts, mode="sum", per_sample_weights=weights[order])


def _sorted(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in ascending order, and the original places of its entries; int64."""
    found = numbers.long().sort(1)
    return found.values, found.indices
