"""Convolutions with random filters from a declared public seed."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError


class RandomConvolutions(nn.Module):
    """Random filters, both halves of their answers, and local averages (in the manner of Coates and Ng 2011).

    Input (n, channels, h, w); output (n, 2 x filters, ceil(h / pool), ceil(w / pool)): averages of max(r, 0) and of
    max(-r, 0), r the answers to `filters` filters of `size` x `size` pixels with mean 0 and norm 1. The filters are
    drawn from the declared `seed`; they are a buffer of the state dictionary, so the state that a run declares public
    covers them.
    """

    def __init__(self, channels: int, *, filters: int = 64, size: int = 5, pool: int = 4, seed: int = 0) -> None:
        super().__init__()
        shape = [checks.count("filters", filters), checks.count("channels", channels), checks.count("size", size), size]
        if size % 2 == 0 or size * size * channels < 2:
            raise InputError(f"random_convolutions: size must be an odd number above 1, got {size!r}")
        self.pool = checks.count("pool", pool)
        drawn = public_normals(seed, math.prod(shape)).view(filters, -1)
        drawn = drawn - drawn.mean(1, keepdim=True)
        self.register_buffer("filters", F.normalize(drawn).view(shape).float())

    def forward(self, images: Tensor) -> Tensor:
        filters = self.get_buffer("filters")
        answers = F.conv2d(images, filters, padding=filters.shape[-1] // 2)
        both = torch.cat([answers.clamp_min(0), (-answers).clamp_min(0)], 1)
        return F.avg_pool2d(both, self.pool, ceil_mode=True, count_include_pad=False)


def public_normals(seed: int, count: int) -> Tensor:
    """`count` standard normals from a public seed: SHAKE-256 of its decimal digits, 8 bytes each, through the inverse
    of the normal distribution. float64. Anyone can draw them again, with any version of any library."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed must be a whole number, got {seed!r}")
    words = np.frombuffer(hashlib.shake_256(str(seed).encode()).digest(8 * count), "<u8")
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    normals: Tensor = torch.special.ndtri(torch.from_numpy(uniform))
    return normals
