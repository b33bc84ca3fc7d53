"""Features less a center that all rows have in common.

What all rows have in common tells none of them apart, and takes most of the clip norm where it is long. The center is
no weight: a run buys it before its first step, and `set_center` puts it in.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.features import SIZE
from discreet.recipes.models.tabular import CenteredColumns


class Centered(nn.Module):
    """Rows (n, ...) of `width` numbers, scaled to norm 1, less a `center`, scaled to norm `size`: (n, width)."""

    center: Tensor

    def __init__(self, width: int, size: float = SIZE) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("center", torch.zeros(width), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.size * F.normalize(self.unit(rows) - self.center, dim=1)

    def unit(self, rows: Tensor) -> Tensor:
        """(n, ...) -> (n, width), rows of norm 1."""
        return F.normalize(rows.flatten(1), dim=1)


class Uncentered(nn.Module):
    """Rows (n, ...) as a model with a center has them before it is subtracted: (n, width), of norm 1."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.part = _part(model)

    def forward(self, rows: Tensor) -> Tensor:
        return self.part.unit(rows)


def set_center(model: nn.Module, center: Tensor) -> None:
    """Put a center, shape (width,), into a model that has none yet."""
    part = _part(model)
    if center.shape != part.center.shape or not center.isfinite().all():
        raise InputError(f"the center must be {len(part.center)} finite numbers, not of shape {tuple(center.shape)}")
    part.center.copy_(center)


def center_of(model: nn.Module) -> Tensor:
    """The center of a model, shape (width,); `InputError` if it is not `centered`."""
    return _part(model).center


def _part(model: nn.Module) -> Centered | CenteredColumns:
    found = [part for part in model.modules() if isinstance(part, Centered | CenteredColumns)]
    if len(found) != 1:
        raise InputError("a center goes with a model that is `centered`: tabular with unit_rows, or linear")
    return found[0]
