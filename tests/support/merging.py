"""Models that make another axis part of that of the examples, for some modules. Rows are 4 x 4 x 3."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SIDE, WIDTH, CLASSES = 4, 3, 2

Meets = Callable[["Merging", Tensor], Tensor]
"""What the model does with rows, shape (batch, 4, 4, 3); it returns numbers of shape (batch, ..., 3)."""


def rows(count: int) -> tuple[Tensor, Tensor]:
    """Random rows, the same for each count, and their classes."""
    torch.manual_seed(count)
    return torch.randn(count, SIDE, SIDE, WIDTH), torch.arange(count) % CLASSES


class Scaled(nn.Module):
    """Without a rule: it runs again to clip its gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.scale * self.scale)


class Merging(nn.Module):
    """`meets` between the rows and a last layer; it may use any of the modules."""

    def __init__(self, meets: Meets) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.last = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.table, self.bag = nn.Embedding(5, WIDTH), nn.EmbeddingBag(5, WIDTH, mode="sum")
        self.conv, self.groups, self.bend = nn.Conv2d(WIDTH, 2, 2), nn.GroupNorm(1, 2), nn.PReLU()
        self.line, self.pair, self.own = nn.Conv1d(SIDE, SIDE, 1), nn.Bilinear(WIDTH, WIDTH, WIDTH), Scaled()
        self.time, self.cells = (
            nn.GRU(WIDTH, WIDTH, batch_first=True),
            nn.MultiheadAttention(WIDTH, 1, batch_first=True),
        )
        with torch.no_grad():
            for one in (self.norm, self.groups):
                one.weight.uniform_(0.5, 1.5)
        self.meets = meets

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(self.meets(self, x).flatten(1, -2).mean(1))
        return output


def windows(m: Merging, x: Tensor) -> Tensor:
    """Attention within windows of 2 x 2 places, which lie along the first axis."""
    parts = x.view(-1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, WIDTH)
    h = m.norm(parts)
    h = torch.softmax(m.linear(h) @ h.transpose(1, 2), -1) @ m.linear(parts)
    return h.view(-1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, WIDTH)


def frames(m: Merging, x: Tensor) -> Tensor:
    """Every row is a film of 4 pictures of 2 x 2 places, each of which goes through a convolution like a row."""
    pictures = x.reshape(-1, WIDTH, 2, 2)
    seen = m.bend(m.groups(m.conv(pictures)))
    return seen.view(len(x), 4, 2).mean(2, keepdim=True).expand(-1, -1, WIDTH)


def words(x: Tensor) -> Tensor:
    """Whole numbers of shape (batch x 4, 4)."""
    return ((x[..., 0].flatten(0, 1) > 0) + 2 * (x[..., 1].flatten(0, 1) > 0)).long()


def several(m: Merging, x: Tensor) -> Tensor:
    """One layer on 16 entries of each row, on 4, and on rows as they are."""
    one = m.linear(x.reshape(-1, WIDTH)).view_as(x)
    return one + m.linear(x.flatten(0, 1)).view_as(x) + m.linear(x)


MERGED: dict[str, tuple[set[str], Meets]] = {
    "places one by one": ({"linear", "norm"}, lambda m, x: m.norm(m.linear(x.reshape(-1, WIDTH)).tanh()).view_as(x)),
    "lines one by one": ({"linear"}, lambda m, x: m.linear(x.flatten(0, 1)).unflatten(0, (-1, SIDE))),
    "windows": ({"linear", "norm"}, windows),
    "frames": ({"conv", "groups", "bend"}, frames),
    "lines of channels": ({"line"}, lambda m, x: m.line(x.flatten(0, 1)).view_as(x)),
    "words": ({"table"}, lambda m, x: m.table(words(x)).view_as(x)),
    "several ways": ({"linear"}, several),
    "in place": ({"linear"}, lambda m, x: m.linear(x.reshape(-1, WIDTH)).mul_(2.0).view_as(x)),
    "a part of them": ({"linear"}, lambda m, x: m.linear(x[:, 1:3].reshape(-1, WIDTH)).view(-1, 8, WIDTH)),
}
"""Programs in which the named modules, and no others but the last layer, have several entries of each example."""


def _places_first(x: Tensor) -> Tensor:
    return x.flatten(1, 2).transpose(0, 1).flatten(0, 1)


OTHERWISE: dict[str, Meets] = {
    "the entries of an example apart": lambda m, x: m.linear(_places_first(x)).view(16, -1, WIDTH).transpose(0, 1),
    "put together in another order": lambda m, x: (
        m.linear(x.flatten(0, 1).flatten(0, 1)).view(16, -1, WIDTH).mean(0)[:, None]
    ),
    "as many ones": lambda m, x: x + m.bend(-torch.ones(SIDE * len(x))).view(SIDE, -1).sum(0).view(-1, 1, 1, 1),
    "ones, in the order of the examples": lambda m, x: (
        x + m.bend(-torch.ones(SIDE * len(x))).view(-1, SIDE).sum(1).view(-1, 1, 1, 1)
    ),
    "bags of words": lambda m, x: m.bag(words(x)).view(-1, SIDE, WIDTH),
    "two inputs": lambda m, x: m.pair(x.reshape(-1, WIDTH), x.reshape(-1, WIDTH).cos()).view_as(x),
    "a class without a rule": lambda m, x: m.own(x.flatten(0, 1)).view_as(x),
    "a recurrent network": lambda m, x: m.time(x.flatten(0, 1))[0].reshape(x.shape),
    "multi-head attention": lambda m, x: m.cells(*[x.flatten(0, 1)] * 3)[0].view_as(x),
}
"""Programs that are not taken: entries of an example lie apart, or nobody can tell; or the rule takes no several."""
