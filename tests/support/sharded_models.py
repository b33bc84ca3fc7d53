"""Tiny models whose weights are shared out among processes: transformers, and layers that matter there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WORDS, WIDTH = 30, 32

M = TypeVar("M", bound=nn.Module)


class Block(nn.Module):
    """A transformer block with causal attention; `2 d + 1` features inside, so that nothing divides evenly."""

    def __init__(self, d: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down, self.drop = nn.Linear(d, 2 * d + 1), nn.Linear(2 * d + 1, d), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, d = x.shape
        parts = self.qkv(self.before(x)).view(rows, length, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(rows, length, d)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.between(x)))))


class Queries(nn.Module):
    """Learned queries, which the next layer reads as they are: its input is a part of a weight."""

    def __init__(self, count: int, features: int) -> None:
        super().__init__()
        self.held = nn.Parameter(torch.linspace(-1, 1, count * features).reshape(count, features))

    def forward(self, like: Tensor) -> Tensor:
        return self.held.expand(len(like), -1, -1)


class OfQueries(nn.Module):
    """A classifier of short texts by learned queries."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.queries = nn.Embedding(WORDS, 16), Queries(4, 16)
        self.read, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, words: Tensor) -> Tensor:
        asked = self.read(self.queries(words))
        return self.head(torch.tanh(self.embed(words).mean(1, keepdim=True) * asked).mean(1))


class Gpt(nn.Module):
    """A classifier of short texts: an embedding, blocks, a head."""

    def __init__(self, d: int = WIDTH, layers: int = 2, words: int = WORDS, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.blocks = nn.ModuleList(Block(d, 4, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.looked_up(tokens)
        for block in self.blocks:
            x = block(x)
        head: Tensor = self.head(self.norm(x).mean(1))
        return head

    def looked_up(self, tokens: Tensor) -> Tensor:
        """The vectors of the tokens."""
        found: Tensor = self.embed(tokens)
        return found


class Placed(Gpt):
    """One that adds vectors of places, which all texts have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(8, WIDTH)

    def looked_up(self, tokens: Tensor) -> Tensor:
        return super().looked_up(tokens) + self.places(torch.arange(tokens.shape[1])).tanh()


class PickyLoss(nn.Module):
    """Fails on rows with a large output."""

    largest = float("inf")

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        if bool((output.detach().abs() > self.largest).any()):
            Failed.count += 1
            raise ValueError("a row that this loss does not like")
        return nn.functional.cross_entropy(output, target)


class Failed:
    """How many times `PickyLoss` or `Breaking` has failed."""

    count = 0


class Breaking(nn.Module):
    """Fails in the middle of the model, from the step on in which `now` is set; no check before a run sees that."""

    now = False

    def forward(self, x: Tensor) -> Tensor:
        if self.now:
            Failed.count += 1
            raise ValueError("a row that this module does not like")
        return x


class Scale(nn.Module):
    """A layer without a rule."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.full((d,), 0.7))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x * (self.by * self.by))


class Gain(Scale):
    """A layer that broadcasts the squares of its parameter over the examples; torch keeps the parameter for that."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x * self.by.square())


class OneByOne(nn.Module):
    """A layer that is given the words of all texts one by one."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.layer(x.flatten(0, 1))).view_as(x)


class Scaled(nn.Module):
    """A block whose branch is multiplied by a parameter of its own."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d + 1), nn.Linear(2 * d + 1, d)
        self.gamma = nn.Parameter(torch.full((d,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.down(nn.functional.gelu(self.up(self.norm(x))))


class Vit(nn.Module):
    """A classifier of short texts as vision transformers are: a token of the class and places, which it holds itself,
    beside blocks with scales, and a frozen scale, which it uses before and after these. Blocks that are `checkpointed`
    have no scales."""

    def __init__(self, d: int = WIDTH, length: int = 6, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, d)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, d) / 4), nn.Parameter(torch.randn(length + 1, d) / 4)
        self.frozen = nn.Parameter(torch.linspace(0.5, 1.5, d), requires_grad=False)
        self.blocks = nn.ModuleList(Block(d, 4, 0.1) if checkpointed or i == 1 else Scaled(d) for i in range(3))
        self.head, self.checkpointed = nn.Linear(d, 3), checkpointed

    def forward(self, words: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(words), -1, -1), self.embed(words) * self.frozen], dim=1)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        rows: Tensor = self.head(x[:, 0] * self.frozen)
        return rows


def gpt(**changes: Any) -> Gpt:
    return seeded(lambda: Gpt(**changes))


def seeded(model: Callable[[], M]) -> M:
    """The model with the same weights in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return model()


class AsItCame(nn.Module):
    """Holds weights, uses none of them, and returns its input itself."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.unused = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return x


class Gate(nn.Module):
    """Changes its input in place, and returns it."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.by = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(torch.sigmoid(self.by(x.mean(1, keepdim=True))))
