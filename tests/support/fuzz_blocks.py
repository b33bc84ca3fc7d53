"""Building blocks of random modules: each takes one kind of tensor and returns one, and keeps the rows apart.

A kind is what the axes mean: "vector" (rows, features), "sequence" (rows, positions, features), "image" (rows,
channels, height, width), "volume" (rows, channels and three axes). Blocks are made for the shape of one row.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from fuzz_modules import (
    Attention,
    Branches,
    Cells,
    Clamped,
    Divided,
    Einsum,
    Function,
    Gate,
    Joined,
    LinearAttention,
    LowRank,
    Own,
    OwnAttention,
    OwnNorm,
    Pairs,
    Permuted,
    Recurrent,
    Residual,
    Scale,
    Summed,
    TiedPair,
    Twice,
    Unfold,
)
from torch import nn
from torch.nn.utils import parametrizations

Shape = tuple[int, ...]
Built = tuple[nn.Module, Shape]
KINDS = {1: "vector", 2: "sequence", 3: "image", 4: "volume"}


@dataclass(frozen=True)
class Block:
    """`build`: from the shape of a row to a module and the shape that it returns. `least`: of each axis but the last
    of a sequence, or but the channels of an image."""

    kinds: tuple[str, ...]
    build: Callable[[random.Random, Shape], Built]
    least: int = 1

    def takes(self, shape: Shape) -> bool:
        """Whether a row of this shape can go in."""
        kind = KINDS.get(len(shape))
        inner = shape[1:] if kind in ("image", "volume") else shape[:-1]
        return kind in self.kinds and all(size >= self.least for size in inner)


ANY, FLAT = ("vector", "sequence", "image", "volume"), ("vector", "sequence")


def _same(make: Callable[[Shape], nn.Module]) -> Callable[[random.Random, Shape], Built]:
    return lambda rng, shape: (make(shape), shape)


def _plain(function: Callable[..., torch.Tensor], **options: object) -> Block:
    return Block(ANY, lambda rng, shape: (Function(function, **options), shape))


def _activation(make: Callable[[], nn.Module]) -> Block:
    return Block(ANY, lambda rng, shape: (make(), shape))


def _size(rng: random.Random) -> int:
    return rng.choice((1, 2, 3, 4, 5, 8, 16, 17))


def _linear(rng: random.Random, shape: Shape) -> Built:
    out = _size(rng)
    return nn.Linear(shape[-1], out, bias=rng.random() < 0.7), (*shape[:-1], out)


def _wide(rng: random.Random, shape: Shape) -> Built:
    return nn.Linear(shape[-1], 48, bias=False), (*shape[:-1], 48)


def _own(rng: random.Random, shape: Shape) -> Built:
    out = rng.choice((2, 3, 5))
    return Own(shape[-1], out), (*shape[:-1], out)


def _conv(kind: type[nn.Conv1d | nn.Conv2d | nn.Conv3d]) -> Callable[[random.Random, Shape], Built]:
    def build(rng: random.Random, shape: Shape) -> Built:
        kernel, padding, dilation = rng.choice((1, 2, 3)), rng.choice((0, 1)), rng.choice((1, 1, 2))
        if any(size + 2 * padding <= dilation * (kernel - 1) for size in shape[1:]):
            kernel = dilation = 1
        groups = rng.choice([g for g in (1, 2, shape[0]) if shape[0] % g == 0])
        stride, mode = rng.choice((1, 1, 2)), rng.choice(("zeros", "zeros", "replicate", "circular"))
        out = groups * rng.choice((1, 2, 3))
        options = {"dilation": dilation, "groups": groups, "bias": rng.random() < 0.6, "padding_mode": mode}
        after = [(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in shape[1:]]
        return kind(shape[0], out, kernel, stride, padding, **options), (out, *after)

    return build


def _transposed(kind: type[nn.ConvTranspose1d | nn.ConvTranspose2d]) -> Callable[[random.Random, Shape], Built]:
    def build(rng: random.Random, shape: Shape) -> Built:
        kernel, stride, out = rng.choice((2, 3)), rng.choice((1, 2)), rng.choice((1, 2, 3))
        after = [(size - 1) * stride + kernel for size in shape[1:]]
        return kind(shape[0], out, kernel, stride, bias=rng.random() < 0.6), (out, *after)

    return build


def _norm(kind: type[nn.Module]) -> Callable[[random.Random, Shape], Built]:
    def build(rng: random.Random, shape: Shape) -> Built:
        axes = rng.choice((1, len(shape)))
        return kind(shape[-axes:], elementwise_affine=rng.random() < 0.8), shape

    return build


def _group_norm(rng: random.Random, shape: Shape) -> Built:
    if math.prod(shape) == 1:  # torch refuses a group of one value
        return nn.Identity(), shape
    groups = rng.choice([g for g in (1, 2, shape[0]) if shape[0] % g == 0 and g < math.prod(shape)])
    return nn.GroupNorm(groups, shape[0]), shape


def _pool(kind: type[nn.Module], size: int = 2) -> Callable[[random.Random, Shape], Built]:
    return lambda rng, shape: (kind(size), (shape[0], *(one // size for one in shape[1:])))


def _adaptive(kind: type[nn.Module]) -> Callable[[random.Random, Shape], Built]:
    return lambda rng, shape: (kind(1), (shape[0], *[1] * (len(shape) - 1)))


def _mean(rng: random.Random, shape: Shape) -> Built:
    return Function(lambda x: x.mean(1)), shape[1:]


def _cell(kind: type[nn.RNNCellBase]) -> Callable[[random.Random, Shape], Built]:
    return lambda rng, shape: (Cells(kind(shape[-1], 3)), (3,))


def _recurrent(kind: type[nn.RNNBase], **options: object) -> Callable[[random.Random, Shape], Built]:
    def build(rng: random.Random, shape: Shape) -> Built:
        both, layers = rng.random() < 0.3, rng.choice((1, 1, 2))
        inner = kind(shape[-1], 3, layers, batch_first=True, bidirectional=both, **options)
        return Recurrent(inner), (shape[0], 6 if both else 3)

    return build


def _attention(rng: random.Random, shape: Shape) -> Built:
    heads = rng.choice([h for h in (1, 2, 4) if shape[-1] % h == 0])
    inner = nn.MultiheadAttention(shape[-1], heads, bias=rng.random() < 0.7, batch_first=True)
    return Attention(inner, causal=rng.random() < 0.3), shape


def _encoder(rng: random.Random, shape: Shape) -> Built:
    first = rng.random() < 0.5
    activation = rng.choice(("relu", "gelu"))
    return nn.TransformerEncoderLayer(shape[-1], 1, 7, 0.0, activation, batch_first=True, norm_first=first), shape


def _pairs(rng: random.Random, shape: Shape) -> Built:
    out = rng.choice((2, 3))
    return Pairs(shape[-1], out), (*shape[:-1], out)


def _flatten(rng: random.Random, shape: Shape) -> Built:
    return nn.Flatten(), (math.prod(shape),)


def _fold(rng: random.Random, shape: Shape) -> Built:
    """A vector as a sequence."""
    size = rng.choice([s for s in (1, 2, 3, 4) if shape[0] % s == 0])
    return nn.Unflatten(1, (shape[0] // size, size)), (shape[0] // size, size)


def _patches(rng: random.Random, shape: Shape) -> Built:
    return Unfold(2), ((shape[1] // 2) * (shape[2] // 2), 4 * shape[0])


def _slice(rng: random.Random, shape: Shape) -> Built:
    stop = max(1, shape[0] - 1)
    return Function(lambda x: x[:, :stop]), (stop, *shape[1:])


def _pad(rng: random.Random, shape: Shape) -> Built:
    return nn.ConstantPad1d((1, 2), rng.choice((0.0, 1.0))), (*shape[:-1], shape[-1] + 3)


def _concatenated(rng: random.Random, shape: Shape) -> Built:
    return Joined(shape[-1]), (*shape[:-1], shape[-1] + 3)


def _einsum(rng: random.Random, shape: Shape) -> Built:
    return Einsum(shape[-1], 3), (*shape[:-1], 3)


def _low_rank(rng: random.Random, shape: Shape) -> Built:
    return LowRank(shape[-1], 4), (*shape[:-1], 4)


def _parametrised(way: Callable[[nn.Module], nn.Module]) -> Callable[[random.Random, Shape], Built]:
    return lambda rng, shape: (way(nn.Linear(shape[-1], 3)), (*shape[:-1], 3))


def _twice(rng: random.Random, shape: Shape) -> Built:
    return Twice(nn.Linear(shape[-1], shape[-1]), rng.choice((-1.0, 1.0, 0.5))), shape


def _tied(rng: random.Random, shape: Shape) -> Built:
    return TiedPair(shape[-1]), shape


def _residual(rng: random.Random, shape: Shape) -> Built:
    inner = nn.Sequential(nn.Linear(shape[-1], 5), nn.ReLU(), nn.Linear(5, shape[-1]))
    return Residual(inner, rng.choice((-1.0, 1.0))), shape


def _branches(rng: random.Random, shape: Shape) -> Built:
    return Branches([nn.Linear(shape[-1], 4), nn.Sequential(nn.Linear(shape[-1], 4), nn.Tanh())]), (*shape[:-1], 4)


BLOCKS: dict[str, Block] = {
    "linear": Block(ANY, _linear),
    "wide linear": Block(FLAT, _wide),
    "linear of its own": Block(FLAT, _own),
    "low rank": Block(FLAT, _low_rank),
    "einsum": Block(FLAT, _einsum),
    "bilinear": Block(FLAT, _pairs),
    "conv1d": Block(("sequence",), _conv(nn.Conv1d)),
    "conv2d": Block(("image",), _conv(nn.Conv2d)),
    "conv3d": Block(("volume",), _conv(nn.Conv3d)),
    "transposed 1d": Block(("sequence",), _transposed(nn.ConvTranspose1d)),
    "transposed 2d": Block(("image",), _transposed(nn.ConvTranspose2d)),
    "layer norm": Block(ANY, _norm(nn.LayerNorm)),
    "rms norm": Block(ANY, _norm(nn.RMSNorm)),
    "group norm": Block(("sequence", "image", "volume"), _group_norm),
    "instance norm 2d": Block(("image",), _same(lambda s: nn.InstanceNorm2d(s[0], affine=True)), 2),
    "frozen batch norm": Block(("image",), _same(lambda s: nn.BatchNorm2d(s[0]).eval())),
    "local response norm": Block(("image",), _same(lambda s: nn.LocalResponseNorm(2))),
    "norm of its own": Block(ANY, _same(lambda s: OwnNorm(s[-1]))),
    "normalised": _plain(nn.functional.normalize, dim=-1),
    "rnn": Block(("sequence",), _recurrent(nn.RNN, nonlinearity="relu")),
    "rnn tanh": Block(("sequence",), _recurrent(nn.RNN)),
    "lstm": Block(("sequence",), _recurrent(nn.LSTM)),
    "gru": Block(("sequence",), _recurrent(nn.GRU)),
    "rnn cell": Block(("sequence",), _cell(nn.RNNCell)),
    "lstm cell": Block(("sequence",), _cell(nn.LSTMCell)),
    "gru cell": Block(("sequence",), _cell(nn.GRUCell)),
    "attention": Block(("sequence",), _attention),
    "attention of its own": Block(("sequence",), _same(lambda s: OwnAttention(s[-1]))),
    "linear attention": Block(("sequence",), _same(lambda s: LinearAttention(s[-1]))),
    "encoder layer": Block(("sequence",), _encoder),
    "relu": _activation(nn.ReLU),
    "relu6": _activation(nn.ReLU6),
    "leaky relu": _activation(nn.LeakyReLU),
    "prelu": Block(ANY, _same(lambda s: nn.PReLU(s[0]))),
    "hard tanh": _activation(nn.Hardtanh),
    "hard swish": _activation(nn.Hardswish),
    "hard sigmoid": _activation(nn.Hardsigmoid),
    "soft shrink": _activation(nn.Softshrink),
    "hard shrink": _activation(nn.Hardshrink),
    "elu": _activation(nn.ELU),
    "gelu": _activation(nn.GELU),
    "silu": _activation(nn.SiLU),
    "mish": _activation(nn.Mish),
    "softplus": _activation(nn.Softplus),
    "tanh": _activation(nn.Tanh),
    "sigmoid": _activation(nn.Sigmoid),
    "softsign": _activation(nn.Softsign),
    "softmax": _plain(torch.softmax, dim=-1),
    "absolute": _plain(torch.abs),
    "sine": _plain(torch.sin),
    "signed log": _plain(lambda x: x.sign() * x.abs().log1p()),
    "cumulative sum": _plain(torch.cumsum, dim=-1),
    "sorted": _plain(lambda x: x.sort(-1).values),
    "clamped": Block(ANY, _same(lambda s: Clamped(s[-1]))),
    "divided": Block(ANY, _same(lambda s: Divided(s[-1]))),
    "scale": Block(ANY, _same(lambda s: Scale(s[-1]))),
    "gate": Block(FLAT, _same(lambda s: Gate(s[-1]))),
    "residual": Block(FLAT, _residual),
    "branches": Block(FLAT, _branches),
    "twice": Block(FLAT, _twice),
    "tied": Block(FLAT, _tied),
    "permuted": Block(("sequence",), lambda rng, s: (Permuted(), (s[1], s[0]))),
    "summed with itself": Block(FLAT, _same(lambda s: Summed(s[-1]))),
    "max pool 2d": Block(("image",), _pool(nn.MaxPool2d), 2),
    "average pool 2d": Block(("image",), _pool(nn.AvgPool2d), 2),
    "adaptive pool 2d": Block(("image",), _adaptive(nn.AdaptiveAvgPool2d)),
    "largest of all 2d": Block(("image",), _adaptive(nn.AdaptiveMaxPool2d)),
    "mean of positions": Block(("sequence",), _mean),
    "flatten": Block(("sequence", "image", "volume"), _flatten),
    "fold": Block(("vector",), _fold),
    "patches": Block(("image",), _patches, 2),
    "slice": Block(ANY, _slice),
    "pad": Block(FLAT, _pad),
    "concatenated": Block(FLAT, _concatenated),
    "weight norm": Block(FLAT, _parametrised(parametrizations.weight_norm)),
    "spectral norm": Block(FLAT, _parametrised(lambda m: parametrizations.spectral_norm(m).eval())),
    "orthogonal": Block(FLAT, _parametrised(parametrizations.orthogonal)),
}


def fitting(shape: Shape) -> list[str]:
    """The blocks that a row of this shape can go into."""
    return [name for name, block in BLOCKS.items() if block.takes(shape)]
