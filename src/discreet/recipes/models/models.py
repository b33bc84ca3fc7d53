"""The models that recipes name. Their initial weights are public: zeros, or drawn from a declared seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.features.initial_weights import drawn
from discreet.features.strokes import Strokes, double_angle
from discreet.recipes.models.centered import Centered
from discreet.recipes.models.networks import biases, collaborative_filtering, mean_embedding, mnist_cnn, word_scores
from discreet.recipes.models.residual import resnet9, resnet18
from discreet.recipes.models.tabular import tabular


class DigitStrokes(nn.Module):
    """The directions of strokes in an 8 x 8 image: a fixed front end without parameters and without statistics of data.

    Input (n, 64), values 0 to 16; output (n, 170), each row of L2 norm 10. Two scales of image gradients, each
    with its angle doubled, so that the two sides of a stroke agree instead of cancelling and the features have
    no common mean that noise would have to hide (the structure tensor's trick: Granlund 1978).
    """

    def forward(self, images: Tensor) -> Tensor:
        x = images.reshape(-1, 8, 8) / 16
        p = F.pad(x, (1, 1, 1, 1))
        wide = double_angle(p[:, 1:-1, 2:] - p[:, 1:-1, :-2], p[:, 2:, 1:-1] - p[:, :-2, 1:-1])  # (n, 2, 8, 8)
        fine = double_angle(x[:, 1:, 1:] - x[:, :-1, :-1], x[:, 1:, :-1] - x[:, :-1, 1:])  # (n, 2, 7, 7)
        pooled = [F.avg_pool2d(field, 2, stride=1).flatten(1) for field in (wide, fine)]
        return 10 * F.normalize(torch.cat(pooled, dim=1), dim=1)


def digit_strokes() -> nn.Module:
    """Strokes of the digits under one linear layer that starts at zero: 1,700 parameters."""
    return nn.Sequential(DigitStrokes(), _zero_head(170))


def mnist_strokes() -> nn.Module:
    """Strokes of MNIST under one linear layer that starts at zero: 5,760 parameters."""
    return nn.Sequential(Strokes(), _zero_head(576))


def linear(inputs: int, outputs: int, centered: bool = False) -> nn.Module:
    """One linear layer that starts at zero, on flattened input, or on `Centered` input."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(Centered(inputs) if centered else nn.Flatten(), layer)


class Scaled(nn.Module):
    """Every number times a public `factor`: pixels 0 to 255 by 1/255, say."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = checks.positive("scale", factor)

    def forward(self, rows: Tensor) -> Tensor:
        return self.factor * rows


def mlp(inputs: int, outputs: int, hidden: list[int], seed: int = 0, scale: float = 1.0) -> nn.Module:
    """Fully connected layers with ReLU, on flattened input times `scale`; weights from the declared `seed`."""
    with drawn(seed):
        layers: list[nn.Module] = [nn.Flatten()] if scale == 1 else [nn.Flatten(), Scaled(scale)]
        for width_in, width_out in pairwise([inputs, *hidden, outputs]):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


MODELS: dict[str, Callable[..., nn.Module]] = {
    "digit_strokes": digit_strokes,
    "mnist_strokes": mnist_strokes,
    "linear": linear,
    "mlp": mlp,
    "mnist_cnn": mnist_cnn,
    "mean_embedding": mean_embedding,
    "word_scores": word_scores,
    "collaborative_filtering": collaborative_filtering,
    "biases": biases,
    "tabular": tabular,
    "resnet9": resnet9,
    "resnet18": resnet18,
}

CODES = frozenset({"mean_embedding", "word_scores", "collaborative_filtering", "biases"})
"""Models whose inputs are indices."""


def _zero_head(features: int) -> nn.Linear:
    head = nn.Linear(features, 10, bias=False)
    nn.init.zeros_(head.weight)
    return head
