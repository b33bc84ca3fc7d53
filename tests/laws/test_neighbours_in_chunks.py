"""Law of every rule, engine and way to clip: a row moves the sum of its chunk by what it adds alone, and nothing else.

So no row decides how others are measured, or whether they count. Other rows lie where such decisions are taken: at the
ends of single precision, and with gradients that are the same at every place. The neighbour is anything: no number, no
gradient, a longest one, several rows of one unit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from clips import CLIPS
from layer_modules import TOKENS, Tied
from torch import Tensor, nn

from discreet.clipping import ENGINES, Clip, Units
from discreet.clipping.rules.base import RULES
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


def turned() -> nn.Module:
    """The linear layer of GPT-2, whose rule is registered when a model of transformers is wrapped."""
    from transformers.pytorch_utils import Conv1D

    register_conv1d()
    layer: nn.Module = Conv1D(6, 8)
    return layer


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
} | ({"linear, turned": (turned, (3, 8))} if find_spec("transformers") else {})
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

KINDS = ["no number", "one infinite", "no gradient", "any", "long", "as another"]


class Draws:
    """Rows of a problem, with the same numbers every time."""

    def __init__(self, name: str, number: int) -> None:
        build, self.shape = MODULES[name]
        self.chance, self.numbers = random.Random(f"{name} {number}"), torch.Generator().manual_seed(number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            self.model = build()
        with torch.no_grad():
            self.outputs = self.model(self._inputs(1.0).unsqueeze(0)).shape[1:]

    def row(self, kind: str = "any") -> Row:
        """Inputs of a row, and the gradient of its outputs."""
        size, slope = (1e25, 1e25) if kind == "long" else self.chance.choice(SIZES)
        gradient = torch.randn(self.outputs, generator=self.numbers) * slope
        if len(self.outputs) > 1 and self.chance.random() < 0.5:
            gradient = gradient[:1].expand(self.outputs).clone()
        if kind == "no gradient":
            gradient.zero_()
        elif kind in ("no number", "one infinite"):
            gradient.view(-1)[0] = torch.nan if kind == "no number" else torch.inf
        return self._inputs(size), gradient

    def unit(self, kind: str, most: int) -> list[Row]:
        rest = kind if kind == "no gradient" else "any"
        return [self.row(kind), *(self.row(rest) for _ in range(self.chance.randint(1, most) - 1))]

    def _inputs(self, size: float) -> Tensor:
        if self.shape[0] < 0:
            return torch.randint(0, TOKENS, (-self.shape[0],), generator=self.numbers)
        return torch.randn(self.shape, generator=self.numbers) * size


def product(output: Tensor, gradient: Tensor) -> Tensor:
    """The loss of one row; `gradient` is that of the row's outputs."""
    return (output * gradient).sum()


def test_every_rule_is_among_the_modules() -> None:
    made = [build() for build, _ in MODULES.values()]
    met = {RULES[type(part)] for one in made for part in one.modules() if type(part) in RULES}
    assert met == {rule for rule in RULES.values() if rule.__module__.startswith("discreet.")}  # tests register others


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap"])
@pytest.mark.parametrize("name", MODULES)
def test_a_row_moves_the_sum_of_its_chunk_by_what_it_adds_alone(name: str, engine: str) -> None:
    for number in range(4):
        draws = Draws(name, number)
        most = draws.chance.choice([1, 4])  # rows of a unit
        clip = CLIPS[draws.chance.choice([*CLIPS])](draws.model, 1.0)
        chunk = [draws.unit("any", most) for _ in range(4)]

        def summed(units: list[list[Row]], draws: Draws = draws, clip: Clip = clip, most: int = most) -> Tensor:
            inputs, gradients = (
                torch.stack(part) for part in zip(*(row for unit in units for row in unit), strict=True)
            )
            sizes = Units(tuple(map(len, units)), at_most=most)
            found = ENGINES[engine].clipped_sum(draws.model, product, inputs, gradients, clip, sizes)
            return torch.cat([part.detach().double().flatten() for part in found.values()])

        without = summed(chunk)
        slack = 2 * 2.0**-20 * clip.spread * (len(chunk) + 1)
        for kind in KINDS:
            new = chunk[0] if kind == "as another" else draws.unit(kind, most)
            own = summed([new])
            assert float(own.norm()) <= clip.sensitivity + slack
            apart = float((summed([*chunk, new]) - without - own).norm())
            assert apart <= slack, (number, kind, most, clip)
