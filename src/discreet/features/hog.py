"""Histograms of oriented gradients."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError

_MOST = 0.2
"""The largest component of a normalised block (Dalal and Triggs 2005, section 6.4: L2-Hys)."""


class Hog(nn.Module):
    """Histograms of oriented gradients (Dalal and Triggs 2005): where edges of which direction are.

    Input (n, channels, h, w); output (n, blocks x block^2 x bins). In cells of `cell` x `cell` pixels, the directions
    of the gradient, from 0 to pi, are counted in `bins` bins, weighted with its size and shared between the two nearest
    bins; of several channels the one with the largest gradient counts, pixel by pixel. Every `block` x `block` cells
    together are scaled to norm 1, cut at 0.2 and scaled again; `eps` keeps empty blocks empty. Pixels beyond the last
    whole cell are left out, and edges are continued as they are. No parameters, no buffers.
    """

    def __init__(self, *, cell: int = 4, bins: int = 9, block: int = 2, eps: float = 0.01) -> None:
        super().__init__()
        self.cell, self.bins = checks.count("cell", cell), checks.count("bins", bins)
        self.block, self.eps = checks.count("block", block), checks.positive("eps", eps)

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or min(images.shape[-2:]) < self.cell * self.block:
            raise InputError(
                f"hog: images must be (n, channels, h, w) of at least {self.cell * self.block} pixels a side, "
                f"got {tuple(images.shape)}"
            )
        p = F.pad(images, (1, 1, 1, 1), mode="replicate")
        gx, gy = p[..., 1:-1, 2:] - p[..., 1:-1, :-2], p[..., 2:, 1:-1] - p[..., :-2, 1:-1]
        strongest = (gx * gx + gy * gy).argmax(1, keepdim=True)
        gx, gy = gx.gather(1, strongest), gy.gather(1, strongest)  # (n, 1, h, w)
        size = torch.sqrt(gx * gx + gy * gy)
        place = torch.remainder(torch.atan2(gy, gx), math.pi) * (self.bins / math.pi)  # bin k is around k
        centres = torch.arange(self.bins, device=images.device, dtype=images.dtype).view(1, -1, 1, 1)
        apart = (place - centres).abs()
        apart = torch.minimum(apart, self.bins - apart)  # directions 0 and pi are the same
        votes = size * (1 - apart).clamp_min(0) if self.bins > 1 else size
        cells = F.avg_pool2d(votes, self.cell)  # (n, bins, cells down, cells across)
        blocks = F.unfold(cells, self.block).transpose(1, 2)  # (n, blocks, bins x block^2)
        blocks = (blocks / (blocks.square().sum(2, keepdim=True) + self.eps**2).sqrt()).clamp_max(_MOST)
        return (blocks / (blocks.square().sum(2, keepdim=True) + self.eps**2).sqrt()).flatten(1)
