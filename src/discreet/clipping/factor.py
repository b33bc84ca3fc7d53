"""The clip factor: the one place where it is decided how much of an example's gradient is used."""

from __future__ import annotations

import torch
from torch import Tensor

_INSIDE = 1 - 2.0**-50
"""Keeps factor x norm at most the clip norm after both roundings."""


def clip_factor(norms: Tensor, clip_norm: float) -> Tensor:
    """Factors that bring gradients of the given L2 norms to at most `clip_norm`.

    `norms`: float64, one per example, shape (batch,). Returns float64 of the same shape.

    | norm                      | factor |
    |---------------------------|--------|
    | 0                         | 1 |
    | at most clip_norm         | 1 |
    | above clip_norm           | clip_norm / norm, rounded down |
    | infinite or NaN           | 0 (the gradient itself must be zeroed too: 0 x NaN is NaN) |
    """
    norms = norms.double()
    tiny = torch.finfo(torch.float64).tiny
    scaled = clip_norm * _INSIDE / norms.clamp(min=tiny)
    scaled = torch.where(scaled < tiny, 0.0, scaled)  # a subnormal factor has too few digits to be rounded down
    factor = torch.where(norms <= clip_norm, torch.ones_like(norms), scaled)
    return torch.where(torch.isfinite(norms), factor, torch.zeros_like(norms))


def clipped_sum(gradients: dict[str, Tensor], clip_norm: float) -> dict[str, Tensor]:
    """Clip per-example gradients, all parameters of an example together, and sum over examples.

    `gradients[name]`: shape (batch, *parameter shape). Returns float64 sums, shape (*parameter shape). An
    example with any non-finite value contributes zero. Norms and sums are taken in float64, so one example
    moves the sum by at most `clip_norm`, up to float64 rounding of the additions.
    """
    squared = [gradient.double().reshape(len(gradient), -1).square().sum(1) for gradient in gradients.values()]
    norms = torch.stack(squared).sum(0).sqrt()
    factor = clip_factor(norms, clip_norm)
    unusable = ~torch.isfinite(norms)
    sums = {}
    for name, gradient in gradients.items():
        usable = gradient.double().masked_fill(unusable.view(-1, *[1] * (gradient.dim() - 1)), 0.0)
        sums[name] = torch.tensordot(factor, usable, dims=1)
    return sums
