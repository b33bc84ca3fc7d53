"""Modules around a layer that give its output to others, share it, or call it in their own way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 6
"""Few, so that examples repeat them."""


def base_of(layer: nn.Module) -> type:
    """Its type, also if it is parametrised."""
    return next(kind for kind in type(layer).__mro__ if kind.__module__.startswith("torch.nn.modules"))


class Around(nn.Module):
    """`layer` behind `before` (so that the gradient must pass through it), in front of a mean over positions."""

    def __init__(self, layer: nn.Module, before: nn.Module | None = None, *, swap: bool = False) -> None:
        super().__init__()
        self.before, self.layer, self.swap = before or nn.Identity(), layer, swap

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        x = x.transpose(0, 1) if self.swap else x
        x = self.layer(*[x] * {nn.MultiheadAttention: 3, nn.Bilinear: 2}.get(base_of(self.layer), 1))
        x = x[0] if isinstance(x, tuple) else x
        return torch.tanh(x.transpose(0, 1) if self.swap else x)


class Tied(nn.Module):
    """A table of tokens that is also the last layer, as in language models."""

    def __init__(self, features: int, padding: int | None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, features, padding), nn.Linear(features, TOKENS)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embed(x)))


class Twice(nn.Module):
    """A layer used twice, and once more under another name with a bias of its own."""

    def __init__(self, layer: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.layer, self.other = layer, other
        self.other.weight = self.layer.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.other(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Own(nn.Module):
    """Parameters of its own beside a layer, used by no rule."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(features, features), nn.Parameter(torch.rand(features) + 0.5)
        self.token = nn.Parameter(torch.randn(1, features))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x + self.token) * self.scale) + self.token


class Pooled(nn.Module):
    """The mean over all positions, so that every position has the same gradient."""

    def __init__(self, features: int, padding: int | None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, features, padding), nn.Linear(features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.head(self.embed(x).mean(1)))


class Weighed(nn.Module):
    """A bag whose tokens have weights that are made from them."""

    def __init__(self, features: int, padding: int | None) -> None:
        super().__init__()
        self.weigh = nn.Embedding(TOKENS, 1)
        self.bag = nn.EmbeddingBag(TOKENS, features, mode="sum", padding_idx=padding)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.bag(x, per_sample_weights=self.weigh(x).squeeze(-1)))


class Pairs(nn.Module):
    """A bilinear layer of an input and something made from it."""

    def __init__(self, features: int, other: int, out: int, *, bias: bool) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(features, other), nn.Bilinear(features, other, out, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x, self.before(x)))


class Steps(nn.Module):
    """A cell that is called at every position."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return torch.tanh(torch.cat(state, 1) if isinstance(state, tuple) else state)
