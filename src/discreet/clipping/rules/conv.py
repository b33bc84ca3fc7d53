"""Convolutions: a linear layer on windows of the input, one position for every place of the kernel."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping.rules.base import Formed, rule


class _Windows(Formed):
    """Per-example gradients as products of windows and values at their places, group by group.

    gradient[o, i, k] = sum over places p of values[o, p] windowed[i, p stride + k dilation].
    """

    def parts(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """(what windows are cut from, padded; the values at the places)."""
        raise NotImplementedError

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        rows = {}
        if "weight" in self.trained:
            rows["weight"] = self._weight_rows(start, stop)
        if "bias" in self.trained:
            rows["bias"] = self.gradient[start:stop].flatten(2).sum(2)
        return rows

    def bytes_per_example(self) -> int:
        module: Any = self.module
        places = self.gradient[0, 0].numel() if not module.transposed else self.activation[0, 0].numel()
        kernel = module.weight[0, 0].numel()
        channels = self.activation.shape[1] if not module.transposed else self.gradient.shape[1]
        numbers: int = places * kernel * channels + module.weight.numel()
        return numbers * self.gradient.element_size()

    def _weight_rows(self, start: int, stop: int) -> Tensor:
        module: Any = self.module
        source, values = self.parts(start, stop)
        count, groups, kernel = len(values), module.groups, module.kernel_size
        views = source
        for axis, (size, stride, dilation) in enumerate(zip(kernel, module.stride, module.dilation, strict=True)):
            views = views.unfold(axis + 2, dilation * (size - 1) + 1, stride)[..., ::dilation]
        places = values.shape[2:]
        for axis, size in enumerate(places):
            views = views.narrow(axis + 2, 0, size)
        channels = source.shape[1] // groups
        spatial = len(places)
        # (batch, channels, places, kernel) -> (batch x groups, channels x kernel, places)
        order = [0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial)]
        columns = views.permute(order).reshape(count * groups, channels * math.prod(kernel), math.prod(places))
        points = values.reshape(count * groups, -1, math.prod(places))
        return torch.bmm(points, columns.transpose(1, 2)).view(count, *module.weight.shape)


@rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
class ConvRule(_Windows):
    """Windows of the input, at the places of the output."""

    def parts(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        padding = module._reversed_padding_repeated_twice
        source = self.activation[start:stop]
        return F.pad(source, padding, mode=mode) if any(padding) else source, self.gradient[start:stop]


@rule(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
class ConvTransposeRule(_Windows):
    """Windows of the output, at the places of the input."""

    def parts(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        padding = [amount for size in reversed(module.padding) for amount in (size, size)]
        gradient = self.gradient[start:stop]
        return F.pad(gradient, padding) if any(padding) else gradient, self.activation[start:stop]
