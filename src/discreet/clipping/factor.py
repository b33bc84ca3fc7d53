"""The clip factor: the one place where it is decided how much of an example's gradient is used."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def clip_factor(norms: Tensor, clip_norm: float, terms: int = 1) -> Tensor:
    """Factors that bring gradients of the given L2 norms to at most `clip_norm`, in exact arithmetic.

    `norms`: float64, one per example, shape (batch,), computed in float64 from `terms` squares. Such a norm is off
    by at most `terms` roundings; the limit used is that much below `clip_norm`. Returns float64, same shape.

    | norm                      | factor |
    |---------------------------|--------|
    | 0                         | 1 |
    | at most the limit         | 1 |
    | above the limit           | limit / norm, rounded down |
    | infinite or NaN           | 0 (the gradient itself must be zeroed too: 0 x NaN is NaN) |
    """
    norms = norms.double()
    limit = clip_norm * (1 - (terms + 16) * 2.0**-52)
    tiny = torch.finfo(torch.float64).tiny
    scaled = limit * (1 - 2.0**-51) / norms.clamp(min=tiny)
    scaled = torch.where(scaled < tiny, 0.0, scaled)  # a subnormal factor has too few digits to be rounded down
    factor = torch.where(norms <= limit, torch.ones_like(norms), scaled)
    return torch.where(torch.isfinite(norms), factor, torch.zeros_like(norms))


def clipped(gradients: dict[str, Tensor], clip_norm: float) -> dict[str, Tensor]:
    """Clip per-example gradients, all parameters of an example together.

    `gradients[name]`: shape (batch, *parameter shape). Returns float64 of the same shapes, with a joint L2 norm of at
    most `clip_norm` per example. An example with any non-finite value becomes zero.
    """
    rows, factor = _usable_rows(gradients, clip_norm)
    return {name: (row * factor.unsqueeze(1)).view_as(gradients[name]) for name, row in rows.items()}


def clipped_sum(gradients: dict[str, Tensor], clip_norm: float) -> dict[str, Tensor]:
    """The sum of `clipped` over the examples, without forming its terms: float64, shape (*parameter shape)."""
    rows, factor = _usable_rows(gradients, clip_norm)
    return {name: (factor @ row).view(gradients[name].shape[1:]) for name, row in rows.items()}


def _usable_rows(gradients: dict[str, Tensor], clip_norm: float) -> tuple[dict[str, Tensor], Tensor]:
    """Gradients as float64 rows, those with non-finite values zeroed, and the factor of each example."""
    rows = {name: gradient.double().reshape(len(gradient), -1) for name, gradient in gradients.items()}
    norms = torch.stack([torch.linalg.vector_norm(row, dim=1).square() for row in rows.values()]).sum(0).sqrt()
    terms = sum(math.prod(gradient.shape[1:]) for gradient in gradients.values())
    unusable = ~torch.isfinite(norms)
    if bool(unusable.any()):
        rows = {name: row.masked_fill(unusable.unsqueeze(1), 0.0) for name, row in rows.items()}
    return rows, clip_factor(norms, clip_norm, terms)
