"""Residual networks for images: one for training from scratch, and one for fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.features.initial_weights import drawn, load_weights


class Residual(nn.Module):
    """The input plus the output of `inner`."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.inner(x)
        return found


def resnet9(outputs: int = 10, width: int = 64, groups: int = 16, seed: int = 0) -> nn.Module:
    """Eight convolutions and a layer for (n, 3, 32, 32): 6.6 million weights at width 64, as in Lecuyer 2021.

    Normalisation is within an example, over `groups` of channels: batch normalisation would let examples influence each
    other.
    """

    def block(inputs: int, channels: int, *, halve: bool) -> list[nn.Module]:
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, channels, 3, padding=1, bias=False),
            nn.GroupNorm(min(groups, channels), channels),
            nn.ReLU(),
        ]
        return [*layers, nn.MaxPool2d(2)] if halve else layers

    def twice(channels: int) -> nn.Module:
        return Residual(nn.Sequential(*block(channels, channels, halve=False), *block(channels, channels, halve=False)))

    with drawn(seed):
        return nn.Sequential(
            *block(3, width, halve=False),
            *block(width, 2 * width, halve=True),
            twice(2 * width),
            *block(2 * width, 4 * width, halve=True),
            *block(4 * width, 8 * width, halve=True),
            twice(8 * width),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(8 * width, outputs),
        )


class FixedNorm(nn.Module):
    """Batch normalisation with fixed statistics, scale and shift of a pretrained network."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)  # type: ignore[arg-type]


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut, with the parameter names of the usual weight files."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False), FixedNorm(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), FixedNorm(channels)
        shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), FixedNorm(channels))
        self.downsample = nn.Identity() if stride == 1 and inputs == channels else shortcut

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(inner + self.downsample(x))


class ResNet18(nn.Module):
    """ResNet-18 (He et al. 2016) on images that are first scaled up to `side` pixels and normalised as for ImageNet."""

    _MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(self, outputs: int, side: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.side = side
        self.conv1, self.bn1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), FixedNorm(widths[0])
        self.layer1 = _stage(widths[0], widths[0], 1)
        self.layer2 = _stage(widths[0], widths[1], 2)
        self.layer3 = _stage(widths[1], widths[2], 2)
        self.layer4 = _stage(widths[2], widths[3], 2)
        self.fc = nn.Linear(widths[3], outputs)

    def forward(self, images: Tensor) -> Tensor:
        mean, deviation = (images.new_tensor(one).view(1, 3, 1, 1) for one in (self._MEAN, self._DEVIATION))
        x = F.interpolate((images - mean) / deviation, (self.side, self.side), mode="bilinear", align_corners=False)
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        found: Tensor = self.fc(x.mean((2, 3)))
        return found


def _stage(inputs: int, channels: int, stride: int) -> nn.Module:
    return nn.Sequential(BasicBlock(inputs, channels, stride), BasicBlock(channels, channels, 1))


def resnet18(
    outputs: int = 10,
    weights: str | None = None,
    last: bool = False,
    side: int = 224,
    width: int = 64,
    seed: int = 0,
) -> nn.Module:
    """ResNet-18 for fine-tuning on (n, 3, h, w): the whole network, or its `last` layer alone.

    `weights`: a safetensors file of ImageNet weights under their usual names (`layer1.0.conv1.weight`), declared
    public; the last layer, with 1,000 outputs, is left out. Without a file, weights are drawn from `seed`, which is
    good only for testing.
    """
    if width < 1 or side < 32:
        raise InputError(f"resnet18: width must be at least 1 and side at least 32, got {width} and {side}")
    with drawn(seed):
        network = ResNet18(outputs, side, [width, 2 * width, 4 * width, 8 * width])
    if weights is not None:
        load_weights(network, weights, leave_out=("fc.",))
    if last:
        network.requires_grad_(False)
        network.fc.requires_grad_(True)
    return network
