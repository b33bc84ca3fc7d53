"""The colours of an image, place by place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError

_TINT = 3.0
"""The weight of colour relative to brightness, which varies more in photos and is less informative."""


class Colours(nn.Module):
    """Mean brightness and colours, of `places` x `places` parts of an image.

    Input (n, channels, h, w) in [0, 1]; output (n, (1 + channels) x places^2): the mean of all channels less 0.5, and
    three times how far each channel is from that mean, which is 0 in a grey image. No parameters, no buffers, no
    statistics of data.
    """

    def __init__(self, *, places: int = 4) -> None:
        super().__init__()
        self.places = checks.count("places", places)

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or min(images.shape[-2:]) < self.places:
            raise InputError(
                f"colours: images must be (n, channels, h, w) of at least {self.places} pixels a side, "
                f"got {tuple(images.shape)}"
            )
        means = F.adaptive_avg_pool2d(images, self.places)
        grey = means.mean(1, keepdim=True)
        return torch.cat([grey - 0.5, _TINT * (means - grey)], dim=1).flatten(1)
