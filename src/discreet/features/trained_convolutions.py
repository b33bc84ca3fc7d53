"""The convolutions of networks that were trained on other, public images, as fixed front ends."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.features.initial_weights import load_weights
from discreet.features.random_convolutions import public_normals

_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of the convolutions of Simonyan and Zisserman 2014, configuration D; 0 is a pooling."""


class FixedConvolution(nn.Module):
    """A convolution that keeps its size, with constants for weights: random ones that keep the size of outputs
    (He et al. 2015), unless they are loaded. They are buffers, so the state that a run declares public covers them."""

    def __init__(self, inputs: int, channels: int, size: int, seed: int) -> None:
        super().__init__()
        shape = (channels, inputs, size, size)
        weight = public_normals(seed, channels * inputs * size * size) * (2 / (inputs * size * size)) ** 0.5
        self.register_buffer("weight", weight.view(shape).float())
        self.register_buffer("bias", weight.new_zeros(channels).float())

    def forward(self, x: Tensor) -> Tensor:
        weight = self.get_buffer("weight")
        return F.conv2d(x, weight, self.get_buffer("bias"), padding=weight.shape[-1] // 2)


class Vgg16(nn.Module):
    """(n, 3, h, w) in [0, 1] to (n, 8 width (h / 32) (w / 32)), after the means of ImageNet."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for channels in (width * one // 64 for one in _VGG16):
            if channels:
                layers += [FixedConvolution(inputs, channels, 3, seed + len(layers)), nn.ReLU()]
                inputs = channels
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        mean, deviation = images.new_tensor([0.485, 0.456, 0.406]), images.new_tensor([0.229, 0.224, 0.225])
        found: Tensor = self.features((images - mean.view(1, 3, 1, 1)) / deviation.view(1, 3, 1, 1))
        return found.flatten(1)


class AlexNet(nn.Module):
    """The two convolutions of Xu et al. 2019: 5 x 5, pooled by 2, with local response normalisation.

    (n, 3, h, w) in [0, 1] to (n, width (h / 4) (w / 4)). The second normalises before it pools.
    """

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = FixedConvolution(3, width, 5, seed), FixedConvolution(width, width, 5, seed + 1)

    def forward(self, images: Tensor) -> Tensor:
        x = _normalised(F.max_pool2d(F.relu(self.conv1(images - 0.5)), 2))
        return F.max_pool2d(_normalised(F.relu(self.conv2(x))), 2).flatten(1)


def _normalised(x: Tensor) -> Tensor:
    return F.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1.0)


NETWORKS: dict[str, tuple[type[Vgg16] | type[AlexNet], int]] = {"vgg16": (Vgg16, 32), "alexnet": (AlexNet, 4)}
"""A network by name, and the fewest pixels a side that it takes."""


def convolutions(
    shape: tuple[int, ...], name: str, *, weights: str | None = None, width: int = 64, seed: int = 0
) -> nn.Module:
    """A network for images of `shape`, with the `weights` of a safetensors file, or such as are drawn from `seed`.

    Weights of a file are declared public: no private row may have been among what they were trained on. VGG-16 has the
    usual names there (`features.0.weight`), the other `conv1.weight` and so on. `width` is that of the first layer.
    """
    kind, least = NETWORKS[name]
    if len(shape) != 3 or shape[0] != 3 or min(shape[1:]) < least:
        raise InputError(f"{name} is for images (3, height, width) of at least {least} pixels a side, got {shape}")
    network = kind(checks.count("width", width), seed)
    if weights is not None:
        load_weights(network, weights)
    return network.eval()
