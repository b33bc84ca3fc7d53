"""Directions of strokes in an image, and their turns."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError


class Strokes(nn.Module):
    """Directions of strokes at two scales, and once more of their own output, each row of L2 norm `size`.

    Input (n, 1, h, w); output (n, features), 576 for 28 x 28 pixels. Image gradients stand beside the same with the
    angle doubled, so that the two sides of a stroke agree instead of cancelling and the features have no common mean
    that noise would have to hide (the structure tensor's trick: Granlund 1978). No parameters, no buffers.
    """

    def __init__(self, size: float = 10.0) -> None:
        super().__init__()
        self.size = checks.positive("size", size)

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or images.shape[1] != 1 or min(images.shape[-2:]) < 6:
            raise InputError(
                f"strokes: images must be (n, 1, h, w) of at least 6 pixels a side, got {tuple(images.shape)}"
            )
        fine = F.avg_pool2d(_directions(images), 2)  # (n, 4, h / 2, w / 2): edges
        coarse = _directions(F.avg_pool2d(images, 2))  # the same at half the resolution
        turns = _directions(fine[:, 2:])  # (n, 8, ...): how the doubled angle changes, at bends and ends
        cells = [F.normalize(F.avg_pool2d(part, 3, stride=2).flatten(1)) for part in (fine, coarse, turns)]
        return self.size * F.normalize(torch.cat(cells, dim=1))


def double_angle(gx: Tensor, gy: Tensor, dim: int | None = None) -> Tensor:
    """(|g| cos 2t, |g| sin 2t) of gradients (gx, gy) = |g| (cos t, sin t), on a new axis 1, or along the axis `dim`."""
    magnitude = torch.sqrt(gx * gx + gy * gy + 1e-6)
    parts = [(gx * gx - gy * gy) / magnitude, 2 * gx * gy / magnitude]
    return torch.stack(parts, dim=1) if dim is None else torch.cat(parts, dim=dim)


def _directions(x: Tensor) -> Tensor:
    """Gradient of every channel, and its double angle: (n, c, h, w) -> (n, 4 c, h, w)."""
    p = F.pad(x, (1, 1, 1, 1))
    gx, gy = p[..., 1:-1, 2:] - p[..., 1:-1, :-2], p[..., 2:, 1:-1] - p[..., :-2, 1:-1]
    return torch.cat([gx, gy, double_angle(gx, gy, dim=1)], dim=1)
