"""Rows made to break a bound: values at the ends of what floating point holds, and terms that cancel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from promises import exactly, units_of
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, Engine, Units, private_parameters
from discreet.core.release import ClippedSum

ROWS = 5
"""The last of them is the adversary's."""

FLOAT_BITS = 16
"""The float slack of the fast engines here, as a preflight finds it for models in which terms cancel a little."""

CHECKED = {
    name: engine if engine.float_bits is None else replace(engine, float_bits=FLOAT_BITS)
    for name, engine in ENGINES.items()
}

NAMED = (float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 3e38, 5e22, 1e19, 1e8, 1e-30, 1e-40, 1e-45, 0.0, -0.0)

VALUES = st.one_of(st.sampled_from(NAMED), st.floats(width=32))


class Ratio(nn.Module):
    """Divides by its input and has no rule: at a zero its gradient is not finite."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale / x


class Shared(nn.Module):
    """A module that is called twice."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) - self.inner(x.flip(1))


class Classified(nn.Module):
    """Tokens that are looked up in the same table twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(6, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[: x.shape[1]].unsqueeze(1)
        return self.head((self.embed(x) * signs).sum(1))


class Attended(nn.Module):
    """Self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.attention(x, x, x)[0]
        return mixed


@dataclass(frozen=True)
class Target:
    """A model whose last layer is not bounded, so that what comes in goes on to the gradients."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: bool = False

    def make(self) -> tuple[nn.Module, Tensor, Tensor]:
        """The model and five ordinary rows."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.build()
            shape = (ROWS, *self.shape)
            inputs = torch.randint(6, shape) if self.tokens else torch.rand(shape) + 0.5
            return model, inputs, torch.rand(ROWS) + 0.1


TARGETS = {
    "linear": Target(lambda: nn.Linear(4, 3), (4,)),
    "positions": Target(lambda: nn.Linear(4, 3), (6, 4)),
    "wide positions": Target(lambda: nn.Linear(48, 48), (2, 48)),
    "two layers": Target(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), (4,)),
    "convolution": Target(lambda: nn.Conv1d(2, 3, 2), (2, 6)),
    "wide convolution": Target(lambda: nn.Conv1d(24, 24, 2), (24, 3)),
    "layer norm": Target(lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)), (4,)),
    "tokens": Target(Classified, (4,), tokens=True),
    "attention": Target(Attended, (3, 4)),
    "no rule": Target(Ratio, (4,)),
    "no rule, called twice": Target(lambda: Shared(Ratio()), (3, 4)),
    "layer called twice": Target(lambda: Shared(nn.Linear(4, 3)), (4, 4)),
    "convolution called twice": Target(lambda: Shared(nn.Conv1d(4, 3, 2)), (4, 4)),
}


def proportional(output: Tensor, target: Tensor) -> Tensor:
    """Gradients that do not depend on the output, so that positions cancel to the last bit."""
    return (output * _beside(target, output)).sum()


def squared(output: Tensor, target: Tensor) -> Tensor:
    """Infinite long before its gradient is."""
    return (output - _beside(target, output)).square().sum()


def distance(output: Tensor, target: Tensor) -> Tensor:
    """Infinite at an infinite target, where its gradient is 1 or -1."""
    return (output - _beside(target, output)).abs().sum()


def logarithm(output: Tensor, target: Tensor) -> Tensor:
    """Minus infinity at zero."""
    return (output.abs().log() * _beside(target, output)).sum()


LOSSES = (proportional, squared, distance, logarithm)


def _beside(target: Tensor, output: Tensor) -> Tensor:
    return target.view(-1, *[1] * (output.dim() - 1))


@dataclass(frozen=True)
class Batch:
    """A model, a loss and rows, `sizes[i]` of them of unit i; the adversary's unit is the last."""

    model: nn.Module
    criterion: Callable[[Tensor, Tensor], Tensor]
    inputs: Tensor
    targets: Tensor
    sizes: tuple[int, ...]

    def total(self, engine: Engine, clip: Clip, cut: tuple[int, ...]) -> ClippedSum:
        """What goes to the mechanism for the first units, in chunks of so many."""
        accumulator, unit, row = Accumulator(private_parameters(self.model)), 0, 0
        for count in cut:
            sizes = self.sizes[unit : unit + count]
            unit, start, row = unit + count, row, row + sum(sizes)
            rows = self.inputs[start:row], self.targets[start:row]
            units = None if set(self.sizes) == {1} else Units(sizes)
            accumulator.add(engine.clipped_sum(self.model, self.criterion, Chunk(*rows, units), clip))
        return accumulator.total(engine, clip, largest_batch=len(self.sizes))


def share_moved(engine: Engine, batch: Batch, norm: float) -> float:
    """How far the last unit moves the sum, however the batch is cut, over the sensitivity; exact arithmetic."""
    clip, count = Clip(norm, math.ldexp(1.0, math.frexp(norm)[1] - 24)), len(batch.sizes)
    rest = batch.total(engine, clip, (count - 1,))
    left, worst = units_of(rest.tensors, clip.grid), 0.0
    for cut in ((count,), (1, count - 1), (count - 1, 1), (2, 1, count - 3)):
        whole = batch.total(engine, clip, cut)
        assert whole.sensitivity == rest.sensitivity >= norm
        squares = sum((a - b) ** 2 for a, b in zip(units_of(whole.tensors, clip.grid), left, strict=True))
        worst = max(worst, float(squares * exactly(clip.grid) ** 2 / exactly(whole.sensitivity) ** 2))
    return worst**0.5
