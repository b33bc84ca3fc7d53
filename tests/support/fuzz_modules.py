"""Small modules that random models are put together from, beside those of torch.nn; none lets rows meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Function(nn.Module):
    """A function without parameters."""

    def __init__(self, function: Callable[..., Tensor], **options: object) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, **self.options)


class Own(nn.Module):
    """A matrix that no rule knows, used with a bias."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.matrix, self.shift = (
            nn.Parameter(torch.randn(out, features) / features**0.5),
            nn.Parameter(torch.rand(out)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.matrix, self.shift)


class LowRank(nn.Module):
    """A product of two matrices."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(features, 2)), nn.Parameter(torch.randn(2, out))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.a @ self.b


class Einsum(nn.Module):
    """A contraction with a matrix, written as a sum over indices."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(features, out) / features**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("n...i,io->n...o", x, self.matrix)


class Scale(nn.Module):
    """Numbers that multiply and shift."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.factor, self.shift = nn.Parameter(torch.rand(features) + 0.5), nn.Parameter(torch.randn(features))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.shift


class Clamped(nn.Module):
    """The same with a limit, whose place is trained."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.least = nn.Parameter(torch.randn(features))

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.least)


class Divided(nn.Module):
    """Divided by one more than the size."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight / (1.0 + x.abs().sum(-1, keepdim=True))


class OwnNorm(nn.Module):
    """Standardises each row's last axis."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class Gate(nn.Module):
    """A layer times the sigmoid of another."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.value, self.gate = nn.Linear(features, features), nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) * torch.sigmoid(self.gate(x))


class Pairs(nn.Module):
    """A bilinear layer of an input and something made from it."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(features, 2), nn.Bilinear(features, 2, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, torch.tanh(self.before(x)))


class Residual(nn.Module):
    """`x + sign * inner(x)`."""

    def __init__(self, inner: nn.Module, sign: float) -> None:
        super().__init__()
        self.inner, self.sign = inner, sign

    def forward(self, x: Tensor) -> Tensor:
        return x + self.sign * self.inner(x)


class Branches(nn.Module):
    """The product of what several return."""

    def __init__(self, inner: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inner = nn.ModuleList(inner)

    def forward(self, x: Tensor) -> Tensor:
        first, *others = [one(x) for one in self.inner]
        for other in others:
            first = first * other
        return first


class Twice(nn.Module):
    """One layer called twice; what the calls return is added with a factor, so that it may cancel."""

    def __init__(self, layer: nn.Module, factor: float) -> None:
        super().__init__()
        self.layer, self.factor = layer, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.factor * self.layer(x.flip(-1))


class TiedPair(nn.Module):
    """Two layers with one weight."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(features, features), nn.Linear(features, features, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


class Summed(nn.Module):
    """Two layers whose outputs nearly cancel."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(features, features), nn.Linear(features, features)
        with torch.no_grad():
            self.b.weight.copy_(self.a.weight * (1 + 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) - self.b(x)


class Joined(nn.Module):
    """The input beside a layer of it."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layer(x)], -1)


class Permuted(nn.Module):
    """Positions and features change places."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Unfold(nn.Module):
    """An image as a sequence of its patches."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return F.unfold(x, self.size, stride=self.size).transpose(1, 2)


class Recurrent(nn.Module):
    """All outputs of a recurrent layer."""

    def __init__(self, inner: nn.RNNBase) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.inner(x)[0]
        return outputs


class Cells(nn.Module):
    """A cell called at every position; its last state."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state = self.cell(x[:, 0])
        for t in range(1, x.shape[1]):
            state = self.cell(x[:, t], state)
        return state[0] if isinstance(state, tuple) else state


class Attention(nn.Module):
    """Self-attention, perhaps causal."""

    def __init__(self, inner: nn.MultiheadAttention, *, causal: bool) -> None:
        super().__init__()
        self.inner, self.causal = inner, causal

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        mixed: Tensor = self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]
        return mixed


class OwnAttention(nn.Module):
    """The same from linear layers."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(features, features) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1) @ self.v(x)


class LinearAttention(nn.Module):
    """Without a softmax."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.q, self.v = nn.Linear(features, features), nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("nif,njf,njg->nig", self.q(x), x, self.v(x))
