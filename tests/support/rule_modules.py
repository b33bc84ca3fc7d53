"""Modules of every rule, and rows for them: what laws of all rules run engines with."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from layer_modules import TOKENS, Tied
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.language.conv1d_rule import register_conv1d

Row = tuple[Tensor, Tensor]


class Computed(nn.Module):
    """What a function makes of a module and the rows."""

    def __init__(self, inner: nn.Module, function: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.inner, x)


class Matrix(nn.Module):
    """No rule knows it."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.scale = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (x @ self.matrix)


class Both(nn.Module):
    """The sum of what two modules make of the rows."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.one(x), self.other(x)
        first = first[0] if isinstance(first, tuple) else first
        return first + 0.5 * second[..., : first.shape[-1]]


class LookedUpTwice(nn.Module):
    """The means over places of one table, which is looked up by two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Embedding(TOKENS, 6), nn.Embedding(TOKENS, 6)
        self.other.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x).mean(1) + 2 * self.other(x).mean(1)


def mean(**options: Any) -> Callable[[], nn.Module]:
    return lambda: Computed(nn.Embedding(TOKENS, 6, **options), lambda inner, x: inner(x).mean(1))


def weighed(inner: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = inner(torch.arange(6).expand(len(x), 6) % 4, per_sample_weights=x)
    return found


def attended(inner: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = inner(x, x, x, key_padding_mask=(x == 0).all(2), need_weights=False)[0]
    return found


def turned(outputs: int, inputs: int) -> nn.Module:
    """The linear layer of GPT-2, whose rule is registered when a model of transformers is wrapped."""
    from transformers.pytorch_utils import Conv1D

    register_conv1d()
    layer: nn.Module = Conv1D(outputs, inputs)
    return layer


def sharing(one: nn.Module, other: nn.Module, name: str) -> nn.Module:
    """Both modules; the weight of the other one is that of this name."""
    other.weight = one.get_parameter(name)
    return Both(one, other)


def twice(inner: nn.Module, x: Tensor) -> Tensor:
    def called(rows: Tensor) -> Tensor:
        found: Tensor = (
            inner(rows, x, x, need_weights=False)[0] if isinstance(inner, nn.MultiheadAttention) else inner(rows)
        )
        return found

    return called(x) - 0.3 * called(x.flip(1))


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(8, 6), (8,)),
    "linear, wide": (lambda: nn.Linear(40, 2, bias=False), (40,)),
    "linear, one place": (lambda: nn.Linear(8, 6), (1, 8)),
    "linear, places": (lambda: nn.Linear(8, 6), (3, 8)),
    "linear, Gram": (lambda: nn.Linear(96, 96), (2, 96)),
    "linear, small layers": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)), (3, 8)),
    "convolution": (lambda: nn.Conv1d(4, 6, 3, stride=2, groups=2, padding=1), (4, 9)),
    "convolution, Gram": (lambda: nn.Conv2d(64, 64, 3), (64, 4, 4)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 3, 3)),
    "bilinear": (lambda: Computed(nn.Bilinear(3, 4, 5), lambda inner, x: inner(x[:, :3], x[:, 3:])), (7,)),
    "words": (lambda: nn.Embedding(TOKENS, 6, padding_idx=0), (-5,)),
    "words, mean": (mean(), (-12,)),
    "words, mean without padding": (mean(padding_idx=0), (-12,)),
    "words, twice": (LookedUpTwice, (-12,)),
    "bag": (lambda: nn.EmbeddingBag(TOKENS, 6, mode="mean", padding_idx=0), (-5,)),
    "bag, longest": (lambda: nn.EmbeddingBag(TOKENS, 6, mode="max"), (-5,)),
    "bag, weighed": (lambda: Computed(nn.EmbeddingBag(TOKENS, 6, mode="sum"), weighed), (6,)),
    "layer norm": (lambda: nn.LayerNorm(8), (3, 8)),
    "RMS norm": (lambda: nn.RMSNorm(8), (8,)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 5)),
    "instance norm": (lambda: nn.InstanceNorm1d(4, affine=True), (4, 5)),
    "batch norm": (lambda: nn.BatchNorm1d(4).eval(), (4, 5)),
    "PReLU": (lambda: nn.PReLU(4), (4, 5)),
    "attention": (lambda: Computed(nn.MultiheadAttention(8, 2, bias=False, batch_first=True), attended), (3, 8)),
    "recurrent": (lambda: Computed(nn.LSTM(4, 5, batch_first=True), lambda inner, x: inner(x)[0]), (3, 4)),
    "cell": (lambda: Computed(nn.GRUCell(4, 5), lambda inner, x: inner(x, 0 * x[:, [0, 1, 2, 3, 0]])), (4,)),
    "tied": (lambda: Tied(6, None), (-5,)),
    "called twice": (lambda: Computed(nn.Linear(8, 6), lambda inner, x: inner(x) - inner(x.flip(1))), (8,)),
    "without a rule": (Matrix, (3, 8)),
    "bilinear, places": (lambda: Computed(nn.Bilinear(8, 8, 32), lambda inner, x: inner(x, x.flip(1))), (2, 8)),
    "convolution, one place wide": (lambda: nn.Conv1d(64, 64, 1, groups=2), (64, 2)),
    "convolution, twice": (lambda: Computed(nn.Conv1d(64, 64, 1), twice), (64, 2)),
    "convolutions, one weight": (lambda: sharing(nn.Conv1d(64, 64, 1), nn.Conv1d(64, 64, 1), "weight"), (64, 2)),
    "attention, wide": (lambda: Computed(nn.MultiheadAttention(64, 2, batch_first=True), twice), (3, 64)),
    "recurrent and linear": (
        lambda: sharing(nn.LSTM(40, 40, batch_first=True), nn.Linear(40, 160), "weight_ih_l0"),
        (3, 40),
    ),
}
if find_spec("transformers"):
    MODULES["linear, turned"] = lambda: turned(6, 8), (3, 8)
    MODULES["linear, turned, Gram"] = lambda: turned(96, 96), (2, 96)
    MODULES["linear, turned and not"] = lambda: sharing(turned(96, 96), nn.Linear(96, 96), "weight"), (2, 96)
"""Modules, and the shape of a row; a negative number counts words."""

SIZES = [
    (1.0, 1.0),
    (1e-20, 1e31),
    (1e31, 1e-20),
    (1.0, 1e22),
    (1e22, 1.0),
    (1e19, 1e19),
    (1e-25, 1e-25),
    (1e-38, 1e38),
]
"""Of the inputs of a row and the gradients of its outputs: their product is short or long, and so is each of them."""


class Draws:
    """Rows of a problem, with the same numbers every time."""

    def __init__(self, name: str, number: int) -> None:
        build, self.shape = MODULES[name]
        self.chance, self.numbers = random.Random(f"{name} {number}"), torch.Generator().manual_seed(number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            self.model = build()
        with torch.no_grad():
            self.outputs = self.model(self.inputs(1.0).unsqueeze(0)).shape[1:]

    def row(self, kind: str = "any") -> Row:
        """Inputs of a row, and the gradient of its outputs."""
        size, slope = (1e25, 1e25) if kind == "long" else self.chance.choice(SIZES)
        gradient = self.gradient() * slope
        if len(self.outputs) > 1 and self.chance.random() < 0.5:
            gradient = gradient[:1].expand(self.outputs).clone()
        if kind == "no gradient":
            gradient.zero_()
        elif kind in ("no number", "one infinite"):
            gradient.view(-1)[0] = torch.nan if kind == "no number" else torch.inf
        return self.inputs(size), gradient

    def unit(self, kind: str, most: int) -> list[Row]:
        rest = kind if kind == "no gradient" else "any"
        return [self.row(kind), *(self.row(rest) for _ in range(self.chance.randint(1, most) - 1))]

    def inputs(self, size: float) -> Tensor:
        if self.shape[0] < 0:
            return torch.randint(0, TOKENS, (-self.shape[0],), generator=self.numbers)
        return torch.randn(self.shape, generator=self.numbers) * size

    def gradient(self) -> Tensor:
        """A random gradient of the outputs of a row."""
        return torch.randn(self.outputs, generator=self.numbers)


def product(output: Tensor, gradient: Tensor) -> Tensor:
    """The loss of one row; `gradient` is that of the row's outputs."""
    return (output * gradient).sum()


def summed(engine: str, model: nn.Module, clip: Clip, most: int, units: list[list[Row]]) -> Tensor:
    """The numbers of the clipped sum of units, of at most `most` rows each."""
    inputs, gradients = (torch.stack(part) for part in zip(*(row for unit in units for row in unit), strict=True))
    sizes = Units(tuple(map(len, units)), at_most=most)
    found = ENGINES[engine].clipped_sum(model, product, Chunk(inputs, gradients, sizes), clip)
    return torch.cat([part.detach().double().flatten() for part in found.values()])
