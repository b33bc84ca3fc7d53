"""Edges and colours of small images, pooled: a fixed front end of few numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core.errors import InputError

_EPS = 1e-3
"""Added to the squared strength of edges, so that places without edges stay at zero."""


class Edges(nn.Module):
    """Strengths of edges in eight directions, at two scales, and the colours.

    Input (n, channels, h, w) in [0, 1]; output (n, 400 + 16 channels). The strength of a direction is relative to all
    directions there. Edges are pooled on 5 x 5 places, at full and at half size, colours less 0.5 on 4 x 4. Each of
    the three parts has L2 norm 1. No parameters, no buffers, no statistics of data.
    """

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or min(images.shape[-2:]) < 10:
            raise InputError(
                f"edges: images must be (n, channels, h, w) of 10 pixels a side or more, got {tuple(images.shape)}"
            )
        grey = images.mean(1, keepdim=True)
        fine, coarse = _strength(grey), _strength(F.avg_pool2d(grey, 2))
        pooled = [F.adaptive_avg_pool2d(fine, 5), F.adaptive_avg_pool2d(coarse, 5)]
        pooled.append(F.adaptive_avg_pool2d(images - 0.5, 4))
        return torch.cat([F.normalize(part.flatten(1), dim=1) for part in pooled], dim=1)


def _strength(grey: Tensor) -> Tensor:
    """(n, 1, h, w) -> (n, 8, h, w)."""
    padded = F.pad(grey, (1, 1, 1, 1), mode="replicate")
    across, down = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2], padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    angles = 2 * torch.pi * torch.arange(8) / 8
    strength = F.relu(torch.cat([across * torch.cos(angle) + down * torch.sin(angle) for angle in angles], dim=1))
    return strength / (strength.square().mean(1, keepdim=True) + _EPS).sqrt()
