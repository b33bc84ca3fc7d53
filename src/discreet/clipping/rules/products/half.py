"""Products of matrices in half precision, added up in single precision, on devices that have units for them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from discreet.clipping.rules.numbers import HALF, wide, wide_type

MULTIPLYING_HALF = frozenset({"cuda"})
"""Kinds of devices that multiply matrices in half precision much faster, and add products up in single precision."""

_ALIGNED = 8
"""Rows begin at multiples of so many numbers, which is 16 bytes."""

_WIDENING = hasattr(torch.ops.aten.bmm, "dtype")
"""Whether this torch can return such sums as they are, without rounding them to half precision again."""


def factors(activation: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The inputs of a linear layer and the gradient of its outputs, detached, as factors of `products`.

    In half precision where the device multiplies that faster and the gradient has it: there the layer has rounded its
    input to that type itself, so that nothing is lost. At least in single precision elsewhere, and where every example
    has one position: its norm is measured without the product, which may be beyond all range.
    """
    kind, positions = gradient.dtype, gradient.shape[1:-1].numel()
    if kind in HALF and positions > 1 and _WIDENING and gradient.device.type in MULTIPLYING_HALF:
        return activation.detach().to(kind), gradient.detach()
    return wide(activation), wide(gradient)


def products(one: Tensor, other: Tensor) -> Tensor:
    """The products of two stacks of matrices, at least in single precision: (n, i, k) and (n, k, j) give (n, i, j).

    Products of two numbers in half precision are exact in single precision, in which they are added up.
    """
    if one.is_cuda and one.dtype == other.dtype and one.dtype in HALF and _WIDENING:
        found = torch.bmm(_aligned(one.mT).mT, _aligned(other), out_dtype=torch.float32)
        return found[:, : one.shape[1], : other.shape[2]].contiguous()
    return torch.bmm(wide(one), wide(other))


def _aligned(matrices: Tensor) -> Tensor:
    """The matrices, with zeros at the end of rows that would begin at places from which matrix units cannot read, as
    those of a table of 50,257 words do."""
    missing = -matrices.shape[2] % _ALIGNED if matrices.stride(2) == 1 else 0
    return F.pad(matrices, (0, missing)) if missing else matrices


def additions(factor: Tensor, positions: int | Tensor) -> int | Tensor:
    """The number of additions, each rounded to nearest, that may err as much as those of `products` over positions."""
    return positions * (2 if factor.dtype in HALF else 1)


def unit_roundoff(dtype: torch.dtype) -> float:
    """The most by which an addition of `products` of this type errs, relative to its result: half a unit in the last
    place; a whole one where matrix units of half precision cut off what does not fit."""
    return torch.finfo(wide_type(dtype)).eps / (1 if dtype in HALF else 2)
