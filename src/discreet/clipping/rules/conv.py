"""Convolutions: a linear layer on windows of the input, one position for every place of the kernel.

The cheapest of three ways is taken: forming the gradients from windows written out in memory, forming them one example
at a time by torch's convolution, or measuring them by Gram matrices (see `rules.linear`) and forming only their
weighted sum.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from discreet.clipping.rules import base
from discreet.clipping.rules.base import Formed, rule
from discreet.clipping.rules.linear import MANY, outer_lengths, scaled_outer_lengths
from discreet.clipping.rules.numbers import added, blank, examples_together, norms_of, scaled
from discreet.clipping.rules.products.gram import gram_and_rounding
from discreet.clipping.rules.products.half import additions

_WEIGHT_OF: dict[int, Callable[..., Tensor]] = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}

_WINDOW, _KEPT, _CALL = 20, 30, 1_600_000
"""Costs in multiplications (measured): writing a number to a window, keeping a gradient's number, one convolution."""

_CACHE = 2**20
"""Bytes of windows at a time. (Many more would need new memory, whose allocation costs more than filling it.)"""


class Convolution(Formed):
    """gradient[o, i, k] = sum over places p of values[o, p] x source[i, p stride + k dilation], group by group."""

    def __init__(self, module: nn.Module, *captured: Any) -> None:
        super().__init__(module, *captured)
        self._source, self._values = self.parts()
        weight = module.get_parameter("weight")
        self._groups: int = getattr(module, "groups")  # noqa: B009
        self._places = math.prod(self._values.shape[2:])
        self._inner = math.prod(weight.shape[1:])  # channels x kernel of one group
        self._outer = weight.shape[0] // self._groups
        products = self._groups * self._places * self._inner * self._outer
        kept = weight.numel() * (_KEPT if weight.numel() > MANY else _KEPT // 6)
        written = _WINDOW * self._groups * self._places * self._inner
        together = _CALL // examples_together(self._places)
        costs = {
            "windows": products + written + kept,
            "calls": products + _CALL + kept,
            "gram": products + written + self._groups * self._places**2 * (self._inner + self._outer) + together,
        }
        self._way = min(costs, key=lambda way: costs[way])
        if self._way == "gram":
            self.formed = tuple(name for name in self.trained if name != "weight")

    @abstractmethod
    def parts(self) -> tuple[Tensor, Tensor]:
        """(the padded tensor from which windows are cut, the values at the places)."""

    def squares(self, name: str) -> Tensor:
        if name in self.formed:
            return super().squares(name)
        return self._of_groups(gram_and_rounding).sum(1)

    def lengths(self, name: str) -> Tensor:
        return super().lengths(name) if name in self.formed else norms_of(self._of_groups(outer_lengths), 1)

    def terms(self, name: str) -> int | Tensor:
        return super().terms(name) if name in self.formed else additions(self._values, self._places)

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        if name in self.formed:
            return super().scaled_lengths(name, scale)
        scales = scale.view(self._groups, self._outer, self._inner)

        def lengths(windows: Tensor, values: Tensor) -> Tensor:
            own = [(windows[i :: self._groups], values[i :: self._groups], one) for i, one in enumerate(scales)]
            return torch.stack([scaled_outer_lengths(*group) for group in own], 1)

        return norms_of(self._of_groups(lengths), 1)

    def total(self, name: str, weights: Tensor) -> Tensor:
        if name in self.formed:
            return super().total(name, weights)
        values = scaled(weights, self._values)
        parts = (torch.split(part, examples_together(self._places)) for part in (self._source, values))
        return added(self._weight_sum(*part) for part in zip(*parts, strict=True))

    def forget_captured(self) -> None:
        super().forget_captured()
        self._source = self._values = base.NOTHING

    def drop_captured(self, unusable: Tensor) -> None:
        super().drop_captured(unusable)
        self._source, self._values = blank(self._source, unusable), blank(self._values, unusable)

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        return self._weight_rows(start, stop) if name == "weight" else super().rows(name, start, stop)

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        rows = {}
        if "weight" in self.formed:
            rows["weight"] = self._weight_rows(start, stop)
        if "bias" in self.formed:
            rows["bias"] = self.gradient[start:stop].flatten(2).sum(2)
        return rows

    def bytes_per_example(self) -> int:
        windows = self._groups * self._places * self._inner if self._way == "windows" else 0
        return windows * self._values.element_size() + super().bytes_per_example()

    def _weight_rows(self, start: int, stop: int) -> Tensor:
        shape = self.module.get_parameter("weight").shape
        if self._way == "calls":
            ranges = [slice(i, i + 1) for i in range(start, min(stop, self.examples))]
            return torch.stack([self._weight_sum(self._source[one], self._values[one]) for one in ranges])
        rows = self._values.new_empty(min(stop, self.examples) - start, *shape)
        flat = rows.view(-1, self._outer, self._inner)
        for first, last in self._small_blocks(start, start + len(rows)):
            points, columns = self._columns(first, last)
            torch.bmm(
                points,
                columns.transpose(1, 2),
                out=flat[(first - start) * self._groups : (last - start) * self._groups],
            )
        return rows

    def _of_groups(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`function` of windows and values (examples x groups, places, features): shape (examples, groups)."""
        parts = []
        for start, stop in self._small_blocks(0, self.examples):
            points, columns = self._columns(start, stop)
            parts.append(function(columns.transpose(1, 2), points.transpose(1, 2)).view(-1, self._groups))
        return torch.cat(parts)

    def _small_blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Blocks of examples whose windows stay in the cache."""
        size = max(1, _CACHE // max(1, self._groups * self._places * self._inner * self._values.element_size()))
        for first in range(start, stop, size):
            yield first, min(first + size, stop)

    def _weight_sum(self, source: Tensor, values: Tensor) -> Tensor:
        """The sum over the given examples of their gradients."""
        module: Any = self.module
        function = _WEIGHT_OF[source.dim() - 2]
        total: Tensor = function(
            source, module.weight.shape, values, stride=module.stride, dilation=module.dilation, groups=self._groups
        )
        return total

    def _columns(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Values (batch x groups, channels, places) and windows (batch x groups, channels x kernel, places)."""
        module: Any = self.module
        source, values = self._source[start:stop], self._values[start:stop]
        count = values.shape[0]
        windows = _of_rows(source, module) if _in_rows(module) else _windows(source, module)
        columns = windows.reshape(count * self._groups, self._inner, self._places)
        return values.reshape(count * self._groups, self._outer, self._places), columns

    def _cut(self, source: Tensor, places: torch.Size) -> Tensor:
        """The part of `source` that the windows at `places` (their number along each axis) reach."""
        module: Any = self.module
        for axis, size in enumerate(places):
            reach = (size - 1) * module.stride[axis] + module.dilation[axis] * (module.kernel_size[axis] - 1) + 1
            source = source.narrow(axis + 2, 0, reach)
        return source


def _windows(source: Tensor, module: Any) -> Tensor:
    """The windows as a view of shape (batch, channels, *kernel, *places)."""
    for axis, (size, stride, dilation) in enumerate(
        zip(module.kernel_size, module.stride, module.dilation, strict=True)
    ):
        source = source.unfold(axis + 2, dilation * (size - 1) + 1, stride)[..., ::dilation]
    spatial = source.dim() // 2 - 1
    return source.permute([0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial)])


def _in_rows(module: Any) -> bool:
    """Whether `_of_rows` can be used and is faster: it brings numbers of a window that lie apart together once."""
    if len(module.stride) != 2 or module.stride[1] == 1 or any(dilation != 1 for dilation in module.dilation):
        return False
    return bool(module.kernel_size[0] % module.stride[0] == 0)


def _of_rows(source: Tensor, module: Any) -> Tensor:
    """The windows of a strided 2-D convolution, as (batch, channels, height / stride, stride, width, places).

    Windows along each line are written out, with lines that are a stride apart beside each other. Windows over several
    lines are then views of this copy in which all places are contiguous.
    """
    (high, wide), (down, across) = module.kernel_size, module.stride
    count, channels, lines = source.shape[:3]
    if lines % down:
        source = F.pad(source, (0, 0, 0, down - lines % down))
    parts = source.unfold(3, wide, across)
    parts = parts.reshape(count, channels, -1, down, *parts.shape[3:]).permute(0, 1, 5, 3, 2, 4).contiguous()
    batch, channel, column, line, row, _ = parts.stride()  # of (batch, channels, width, stride, lines / stride, places)
    shape = count, channels, high // down, down, wide, parts.shape[5] * ((lines - high) // down + 1)
    windows: Tensor = parts.as_strided(shape, (batch, channel, row, line, column, 1))
    return windows


@rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
class ConvRule(Convolution):
    """Windows of the input, at the places of the output."""

    def parts(self) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        padding = module._reversed_padding_repeated_twice
        source = F.pad(self.activation, padding, mode=mode) if any(padding) else self.activation
        return self._cut(source, self.gradient.shape[2:]), self.gradient


@rule(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
class ConvTransposeRule(Convolution):
    """Windows of the output, at the places of the input."""

    def parts(self) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        padding = [amount for size in reversed(module.padding) for amount in (size, size)]
        source = F.pad(self.gradient, padding) if any(padding) else self.gradient
        return self._cut(source, self.activation.shape[2:]), self.activation
