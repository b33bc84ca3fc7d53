"""Small models around every kind of layer, in drawn shapes, and the checks that an engine must pass on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from layer_modules import TOKENS, Around, Own, Pairs, Pooled, Steps, Tied, Twice, Weighed
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Problem:
    """A model and the shape of its examples; `tokens` are whole numbers."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: bool = False

    def make(self, rows: int, dtype: torch.dtype, seed: int, scale: float = 1.0) -> tuple[nn.Module, Tensor, Tensor]:
        """Model, inputs and targets; only every third problem's inputs are contiguous. The others have their axes in
        another order in memory, or gaps between numbers."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.build().to(dtype)
            for parameter in model.parameters():
                if parameter.dim() == 1:  # biases of zero and scales of one hide mistakes
                    nn.init.normal_(parameter, 0.7, 0.5)
            shape, layout = (rows, *self.shape), seed % 3
            drawn = {0: shape, 1: shape[::-1], 2: (*shape, 2)}[layout]
            inputs = torch.randint(0, TOKENS, drawn) if self.tokens else torch.randn(drawn, dtype=dtype) * scale
            if layout == 1:
                inputs = inputs.permute(*reversed(range(len(drawn))))
            elif layout == 2:
                inputs = inputs[..., 1]
            return model, inputs, torch.rand(rows, dtype=dtype) + 0.1


def small(draw: Draw, least: int = 1, most: int = 4) -> int:
    return int(draw(st.integers(least, most)))


def linear(draw: Draw) -> Problem:
    i, o, bias = small(draw), small(draw), draw(st.booleans())
    axes = draw(st.lists(st.integers(1, 5), max_size=2))
    return Problem(lambda: Around(nn.Linear(i, o, bias), nn.Linear(i, i)), (*axes, i))


def conv(draw: Draw) -> Problem:
    dimensions, groups = small(draw, 1, 3), small(draw, 1, 2)
    channels, out, kernel = groups * small(draw, 1, 2), groups * small(draw, 1, 2), small(draw, 1, 3)
    mode = draw(st.sampled_from(["zeros", "reflect", "circular", "replicate"]))
    padding: int | str = draw(st.sampled_from([0, 1, 2, "same"]))
    options = {
        "stride": 1 if padding == "same" else small(draw, 1, 3),
        "dilation": small(draw, 1, 2),
        "groups": groups,
        "bias": draw(st.booleans()),
        "padding": padding,
        "padding_mode": mode,
    }
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    sizes = tuple(small(draw, 5, 7) for _ in range(dimensions))
    return Problem(lambda: Around(kind(channels, out, kernel, **options), nn.PReLU()), (channels, *sizes))


def transposed(draw: Draw) -> Problem:
    dimensions, groups, stride = small(draw, 1, 2), small(draw, 1, 2), small(draw, 1, 3)
    channels, out, kernel = groups * small(draw, 1, 2), groups * small(draw, 1, 2), small(draw, 2, 3)
    dilation, padding = small(draw, 1, 2), small(draw, 0, 1)
    extra = small(draw, 0, max(stride, dilation) - 1)
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dimensions - 1]
    sizes = tuple(small(draw, 2, 4) for _ in range(dimensions))
    return Problem(
        lambda: Around(
            kind(channels, out, kernel, stride, padding, extra, groups, dilation=dilation), nn.PReLU(channels)
        ),
        (channels, *sizes),
    )


def embedding(draw: Draw) -> Problem:
    features, padding = small(draw), draw(st.sampled_from([None, 0, 3]))
    axes = tuple(draw(st.lists(st.integers(1, 7), max_size=2)))
    return Problem(lambda: Around(nn.Embedding(TOKENS, features, padding)), axes, tokens=True)


def pooled(draw: Draw) -> Problem:
    features, padding = small(draw), draw(st.sampled_from([None, 0, 3]))
    return Problem(lambda: Pooled(features, padding), (small(draw, 1, 9),), tokens=True)


def bag(draw: Draw) -> Problem:
    features, padding, mode = small(draw), draw(st.sampled_from([None, 3])), draw(st.sampled_from(["mean", "sum"]))
    return Problem(
        lambda: Around(nn.EmbeddingBag(TOKENS, features, mode=mode, padding_idx=padding)),
        (small(draw, 1, 9),),
        tokens=True,
    )


def weighed(draw: Draw) -> Problem:
    features, padding = small(draw), draw(st.sampled_from([None, 3]))
    return Problem(lambda: Weighed(features, padding), (small(draw, 1, 9),), tokens=True)


def bilinear(draw: Draw) -> Problem:
    features, other, out, bias = small(draw), small(draw), small(draw), draw(st.booleans())
    axes = draw(st.lists(st.integers(1, 4), max_size=2))
    return Problem(lambda: Pairs(features, other, out, bias=bias), (*axes, features))


def layer_norm(draw: Draw) -> Problem:
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
    axes = draw(st.lists(st.integers(1, 3), max_size=2))
    kind = draw(st.sampled_from([nn.LayerNorm, nn.RMSNorm]))
    return Problem(lambda: Around(kind(shape), nn.Linear(shape[-1], shape[-1])), (*axes, *shape))


def channel_norm(draw: Draw) -> Problem:
    groups, sizes = small(draw, 1, 2), tuple(small(draw, 2, 4) for _ in range(2))
    channels = groups * small(draw, 1, 3)
    kinds: list[Callable[[], nn.Module]] = [
        lambda: nn.GroupNorm(groups, channels),
        lambda: nn.InstanceNorm2d(channels, affine=True),
        lambda: nn.BatchNorm2d(channels).eval(),
    ]
    build = draw(st.sampled_from(kinds))
    return Problem(lambda: Around(build(), nn.Conv2d(channels, channels, 1)), (channels, *sizes))


def attention(draw: Draw) -> Problem:
    heads, first, bias = small(draw, 1, 2), draw(st.booleans()), draw(st.booleans())
    features = heads * small(draw, 1, 2)
    return Problem(
        lambda: Around(
            nn.MultiheadAttention(features, heads, bias=bias, batch_first=first),
            nn.Linear(features, features),
            swap=not first,
        ),
        (small(draw, 1, 4), features),
    )


def recurrent(draw: Draw) -> Problem:
    kind, first, both = draw(st.sampled_from([nn.RNN, nn.LSTM, nn.GRU])), draw(st.booleans()), draw(st.booleans())
    features, layers, bias = small(draw, 1, 3), small(draw, 1, 2), draw(st.booleans())
    return Problem(
        lambda: Around(
            kind(features, 2, layers, bias=bias, batch_first=first, bidirectional=both),
            nn.Linear(features, features),
            swap=not first,
        ),
        (small(draw, 1, 4), features),
    )


def cells(draw: Draw) -> Problem:
    kind, bias = draw(st.sampled_from([nn.RNNCell, nn.LSTMCell, nn.GRUCell])), draw(st.booleans())
    features, hidden = small(draw, 1, 3), small(draw, 1, 3)
    return Problem(lambda: Steps(kind(features, hidden, bias)), (small(draw, 1, 4), features))


def tied(draw: Draw) -> Problem:
    features, padding = small(draw), draw(st.sampled_from([None, 2]))
    return Problem(lambda: Tied(features, padding), (small(draw, 1, 6),), tokens=True)


def twice(draw: Draw) -> Problem:
    features, positions = small(draw), draw(st.lists(st.integers(1, 4), max_size=1))
    if draw(st.booleans()):
        return Problem(
            lambda: Twice(nn.Linear(features, features, False), nn.Linear(features, features)), (*positions, features)
        )
    return Problem(
        lambda: Twice(nn.Conv1d(features, features, 3, padding=1), nn.Conv1d(features, features, 3, padding=1)),
        (features, 5),
    )


def own(draw: Draw) -> Problem:
    features = small(draw)
    return Problem(lambda: Own(features), (features,))


def without_a_rule(draw: Draw) -> Problem:
    features = small(draw, 2, 4)
    kinds: list[Callable[[], nn.Module]] = [
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(features, 3)),
        lambda: nn.EmbeddingBag(TOKENS, features, mode="max"),
        lambda: nn.Embedding(TOKENS, features, scale_grad_by_freq=True),
        lambda: nn.utils.parametrizations.weight_norm(nn.Bilinear(features, features, 3)),
    ]
    number = small(draw, 0, 3)
    tokens = number in (1, 2)
    return Problem(lambda: Around(kinds[number]()), (small(draw, 1, 5),) if tokens else (features,), tokens)


PROBLEMS: dict[str, Callable[[Draw], Problem]] = {
    "linear": linear,
    "conv": conv,
    "transposed conv": transposed,
    "embedding": embedding,
    "embedding under a mean": pooled,
    "embedding bag": bag,
    "weighed bag": weighed,
    "bilinear": bilinear,
    "layer norm": layer_norm,
    "channel norm": channel_norm,
    "attention": attention,
    "recurrent": recurrent,
    "cells": cells,
    "tied": tied,
    "used twice": twice,
    "parameters of its own": own,
    "without a rule": without_a_rule,
}


def criterion(output: Tensor, target: Tensor) -> Tensor:
    """A loss that is not one of torch.nn, and differs from example to example."""
    return (torch.sin(3 * output) * target.view(-1, *[1] * (output.dim() - 1))).sum()


def difference(engine: str, model: nn.Module, inputs: Tensor, targets: Tensor, norm: float) -> float:
    """The norm of an engine's sum minus the reference's, relative to batch x clip norm."""
    clip = Clip(norm, 2.0**-30)
    sums = [ENGINES[name].clipped_sum(model, criterion, Chunk(inputs, targets), clip) for name in (engine, "reference")]
    assert list(sums[0]) == list(sums[1])
    apart = sum(float((sums[0][name] - sums[1][name]).square().sum()) for name in sums[0]) ** 0.5
    return apart / (norm * max(1, len(inputs)))


def typical_norm(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """A clip norm at which some gradients are clipped and some may not be: the norm of the first one."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loss = criterion(model(inputs[:1]), targets[:1])
    rows = torch.autograd.grad(loss, parameters, allow_unused=True)
    return max(1e-3, sum(float(row.double().square().sum()) for row in rows if row is not None) ** 0.5)
