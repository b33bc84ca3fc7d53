"""Models that look up in an embedding what all examples have in common. Rows are 4 tokens of 9."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WORDS, LENGTH, WIDTH, CLASSES = 9, 4, 3, 2

Meets = Callable[["Looking", Tensor, Tensor], Tensor]
"""What the model does with the tokens, shape (batch, 4), and their vectors, shape (batch, 4, 3)."""


def rows(count: int) -> tuple[Tensor, Tensor]:
    """Random tokens, the same for each count, and their classes."""
    torch.manual_seed(count)
    return torch.randint(0, WORDS, (count, LENGTH)), torch.arange(count) % CLASSES


class Looking(nn.Module):
    """`meets` between the vectors of the tokens and a last layer; it may use the embedding of places, and others."""

    def __init__(self, meets: Meets, *, padding: int | None = None, sparse: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.last = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.places = nn.Embedding(7, WIDTH, padding_idx=padding, sparse=sparse)
        self.distances, self.dropped = nn.Embedding(5, 1), nn.Dropout(0.1)
        self.register_buffer("numbers", torch.arange(7).unsqueeze(0))
        self.meets = meets

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(torch.tanh(self.meets(self, x, self.words(x))).mean(1))
        return output


def between(length: int) -> Tensor:
    """The distances of places in both directions, at most two, as whole numbers from 0."""
    numbers = torch.arange(length)
    return (numbers[:, None] - numbers).clamp(-2, 2) + 2


def relative(m: Looking, x: Tensor, h: Tensor) -> Tensor:
    """Attention with a bias that depends on distances, to words before alone."""
    bias = m.distances(between(x.shape[1])).permute(2, 0, 1)
    before = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    scores = h @ h.transpose(1, 2) + torch.where(before, bias, -torch.inf)
    return scores.softmax(-1) @ h


COMMON: dict[str, tuple[set[str], Meets]] = {
    "places": ({"places"}, lambda m, x, h: h + m.places(torch.arange(x.shape[1]))),
    "places in a batch of one": ({"places"}, lambda m, x, h: h + m.places(torch.arange(x.shape[1]).unsqueeze(0))),
    "places in a buffer": ({"places"}, lambda m, x, h: h + m.places(m.numbers[:, : x.shape[1]])),
    "places from the end": ({"places"}, lambda m, x, h: h * m.places(torch.arange(3, -1, -1)).sigmoid()),
    "some twice": ({"places"}, lambda m, x, h: h - m.places(torch.tensor([1, 0, 1, 1]))),
    "one for all": ({"places"}, lambda m, x, h: h + m.places(torch.tensor(3))),
    "five, of which one is used": ({"places"}, lambda m, x, h: h + m.places(torch.arange(5))[2]),
    "as a class token": (
        {"places"},
        lambda m, x, h: torch.cat([m.places(torch.zeros(1, dtype=torch.long)).expand(len(x), 1, -1), h], 1),
    ),
    "in two calls": (
        {"places"},
        lambda m, x, h: h * m.places(torch.arange(4)) + m.places(torch.ones(1, 1, dtype=torch.long)),
    ),
    "distances": ({"distances"}, relative),
    "places and distances": (
        {"places", "distances"},
        lambda m, x, h: relative(m, x, h + m.places(torch.arange(x.shape[1]))),
    ),
}
"""Programs that broadcast what the named embeddings return."""

APART: dict[str, Meets] = {
    "places of each example": lambda m, x, h: h + m.places(torch.arange(x.shape[1]).expand(len(x), -1)),
    "tokens of the examples": lambda m, x, h: h + m.places(x.clamp(max=6)),
    "several tokens of each": lambda m, x, h: h + m.places(x.clamp(max=6).reshape(-1)).view_as(h),
}
"""Programs in which an embedding has tokens of each example, which its own rule clips."""

REFUSED: dict[str, Meets] = {
    "common tokens and those of examples": lambda m, x, h: h + m.places(torch.arange(4)) + m.places(x.clamp(max=6)),
    "a sum of two": lambda m, x, h: h + (m.places(torch.arange(4)) + m.distances(torch.arange(4))),
    "a product of matrices": lambda m, x, h: h @ m.places(torch.arange(3)),
    "under a checkpoint": lambda m, x, h: h + checkpoint(m.places, torch.arange(4), use_reentrant=False),
    "the largest token of a batch": lambda m, x, h: h + m.places(x.clamp(max=6).amax(0)),
    "the tokens of the first example": lambda m, x, h: h + m.places(x[:1].clamp(max=6)),
    "as many as there are examples": lambda m, x, h: h + m.places(torch.tensor(len(x) % 7)),
    "with random holes": lambda m, x, h: h + m.dropped(m.places(torch.arange(4))),
    "rows in the other order": lambda m, x, h: h + m.places(torch.arange(4)).expand(len(x), -1, -1).flip(0),
    "of the first example's copy": lambda m, x, h: h + m.places(torch.arange(4)).expand(len(x), -1, -1)[:1],
    "the mean of all copies": lambda m, x, h: h + (m.places(torch.arange(4)) * h.detach().sign()).mean(0),
    "as a tensor, without its value": lambda m, x, h: h + _without_value(m.places(torch.arange(4)), len(x)),
    "copies in another order": lambda m, x, h: h + _turned(m.places(torch.arange(4)).expand(len(x), -1, -1)),
    "with a hook": lambda m, x, h: h + _hooked(m.places(torch.arange(4))),
}
"""Programs that bookkeeping leaves to other engines, or that nobody may run."""


def _without_value(found: Tensor, count: int) -> Tensor:
    """Zeros for each example, with the gradients of what was looked up, in another order."""
    nothing = torch.as_tensor(found - found.detach())
    return (nothing.mean() * torch.ones(count, LENGTH)).reshape(LENGTH, count).t().unsqueeze(2)


def _turned(copies: Tensor) -> Tensor:
    """Copies for each example, shape (batch, 4, 3), of which every example gets parts of others."""
    return copies.reshape(LENGTH, -1, WIDTH).transpose(0, 1)


def _hooked(found: Tensor) -> Tensor:
    """The same, whose gradient is made longer."""
    found.register_hook(lambda gradient: 10 * gradient)
    return found
