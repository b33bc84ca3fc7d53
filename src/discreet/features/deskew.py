"""Makes slanted writing upright."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core.errors import InputError

_STEEPEST = 1.0
"""The largest slant that is corrected: one pixel to the side for every pixel up."""


class Deskew(nn.Module):
    """Each image sheared until its rows no longer drift to one side, and moved so that its weight is in the middle.

    Input and output (n, channels, h, w), for bright strokes on a dark ground. A pixel weighs what it is brighter than
    the darkest of its own image, all channels together. With the second moments mu of these weights the slant is
    mu_xy / mu_yy, at most 45 degrees; pixels between pixels are interpolated, and those from outside take the edge's
    value. An image of one brightness stays as it is. Neither parameters nor statistics of data: the moments are those
    of one image (as LeCun et al. 1998, section III-A, deslant digits).
    """

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or min(images.shape[-2:]) < 2:
            raise InputError(
                f"deskew: images must be (n, channels, h, w) of 2 pixels or more a side, got {tuple(images.shape)}"
            )
        height, width = images.shape[-2:]
        y, x = (
            torch.arange(size, dtype=images.dtype, device=images.device) - (size - 1) / 2 for size in (height, width)
        )
        slant, middle_y, middle_x = _moments(images.sum(1), y, x)
        rows = y[:, None] + middle_y
        columns = x + middle_x + slant * y[:, None]
        grid = torch.stack([columns * (2 / (width - 1)), (rows * (2 / (height - 1))).expand_as(columns)], dim=-1)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=True)


def _moments(images: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of images (n, h, w): slant and centre of weight, each (n, 1, 1); y and x are the pixels' coordinates."""
    weights = images - images.amin(dim=(1, 2), keepdim=True)
    some = weights.sum(dim=(1, 2), keepdim=True) > 0
    weights = torch.where(some, weights / weights.sum(dim=(1, 2), keepdim=True), 0)
    middle_y = (weights * y[:, None]).sum(dim=(1, 2), keepdim=True)
    middle_x = (weights * x).sum(dim=(1, 2), keepdim=True)
    up, aside = y[:, None] - middle_y, x - middle_x
    height = (weights * up * up).sum(dim=(1, 2), keepdim=True)
    drift = (weights * up * aside).sum(dim=(1, 2), keepdim=True)
    slant = torch.where(height > 0, drift / height, 0).clamp(-_STEEPEST, _STEEPEST)
    return slant, middle_y, middle_x
