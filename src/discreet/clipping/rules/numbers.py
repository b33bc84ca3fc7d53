"""Norms and weighted sums of rows: their precision, and bounds on their rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discreet.core.array_types import Array
from discreet.randomness.machine_code import machine_code

_PIECE, _ONE = 2048, torch.ones(())

_SHORT = 32
"""Rows of up to this many numbers are measured in float64 in one pass, which is faster (measured)."""

HALF = frozenset({torch.float16, torch.bfloat16})

LARGEST = 1e30
"""Longer gradients, and longer factors of gradients, count as not finite in single precision: weight x one factor may
be below the range of the type, and the other factor would make its rounding large again."""


def wide(tensor: Tensor) -> Tensor:
    """The tensor, detached, in at least single precision; whole numbers keep their type."""
    tensor = tensor.detach()
    return tensor.to(wide_type(tensor.dtype))


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """The type in which values of type `dtype` are added up: at least single precision; whole numbers keep theirs."""
    return torch.float32 if dtype in HALF else dtype


def blank(tensor: Tensor, unusable: Tensor) -> Tensor:
    """The tensor with zeros in the rows that `unusable` marks."""
    return torch.where(unusable.view(-1, *[1] * (tensor.dim() - 1)), torch.zeros_like(tensor), tensor)


def squared_norms(rows: Tensor) -> Tensor:
    """Squared L2 norm of each row: float64, shape (len(rows),).

    On the processor, short pieces of a row are measured in the type of the rows, and added up in float64. Rows whose
    squares might leave the range of single precision are measured in float64 throughout, and all rows on other devices;
    the result is infinite beyond `LARGEST`.
    """
    flat = rows.reshape(rows.shape[0], -1).contiguous()  # numbers that lie apart would be added up one by one
    if flat.shape[1] <= _SHORT and flat.dtype == torch.float32 and flat.device.type == "cpu":
        found = np.empty(flat.shape[0])
        _compiled()(flat.detach().numpy(), found)
        return torch.from_numpy(found)
    if flat.dtype == torch.float64 or flat.shape[1] == 0:
        return _lengths(flat).square_()
    if flat.device.type != "cpu":  # to look at what is doubtful would keep the device waiting
        squares = norms_of(flat, 1).square_()
        squares.masked_fill_(squares > LARGEST**2, math.inf)
        return squares
    whole = flat.shape[1] // _PIECE * _PIECE
    squares = _lengths(flat[:, whole:] if whole else flat).square_()
    if whole:
        squares += _lengths(flat[:, :whole].reshape(rows.shape[0], -1, _PIECE)).square_().sum(1)
    least, most = squares.aminmax() if squares.shape[0] else (_ONE, _ONE)
    if not (float(least) > 1e-24 and float(most) < 1e24):  # also true for NaN
        doubtful = ~((squares > 1e-24) & (squares < 1e24))
        again = _lengths(flat[doubtful].double()).square_()
        squares[doubtful] = again.masked_fill_(again > LARGEST**2, math.inf)
    return squares


def _squared(rows: npt.NDArray[np.float32], squares: Array) -> None:
    """`squared_norms` of short rows, in float64. Four sums at a time, since each addition waits for the one before.
    (`float` of a number in single precision stays in single precision here.)"""
    whole = rows.shape[1] // 4 * 4
    for row in range(len(rows)):
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for place in range(0, whole, 4):
            first += np.float64(rows[row, place]) ** 2
            second += np.float64(rows[row, place + 1]) ** 2
            third += np.float64(rows[row, place + 2]) ** 2
            fourth += np.float64(rows[row, place + 3]) ** 2
        for place in range(whole, rows.shape[1]):
            first += np.float64(rows[row, place]) ** 2
        total = (first + second) + (third + fourth)
        squares[row] = np.inf if total > LARGEST * LARGEST else total


@cache
def _compiled() -> Callable[[npt.NDArray[np.float32], Array], None]:
    return machine_code(_squared, "void(float32[:, ::1], float64[::1])")


TOGETHER = 128
"""The most terms of several examples that `total` adds up in one product, if an example has more than one."""


def examples_together(terms: int) -> int:
    """The number of examples that `total` may add up in one product, if each has so many terms."""
    return max(1, TOGETHER // max(1, terms))


def with_rounding(squares: Tensor, terms: Tensor, dtype: torch.dtype, count: int | Tensor) -> Tensor:
    """The squared norms of sums, enlarged by the rounding of these sums; float64. `terms`: the sums of the norms of
    the `count` terms.

    The weighted sum over a batch is formed in `dtype`. Its rounding is proportional to the terms: `count` additions err
    by at most half a unit in the last place each, in whatever order they are done. The more an example's terms cancel,
    the more of it a weight made for the rest lets through. As long as they have not cancelled, additions of other
    examples' terms are rounded as coarsely; half the length of all terms is the most that lies there then. So there is
    room for `TOGETHER` of them. Overflowing terms make the norm not finite.
    """
    return (squares.sqrt() + (count + TOGETHER / 2) / 2 * torch.finfo(dtype).eps * terms).square()


def _lengths(rows: Tensor) -> Tensor:
    """The L2 norms over the last axis, computed in the type of the rows, as float64."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return norms.double()


def norms_of(values: Tensor, dim: int) -> Tensor:
    """The L2 norms over axis `dim`, computed in float64."""
    norms: Tensor = torch.linalg.vector_norm(values, dim=dim, dtype=torch.float64)
    return norms


def added(parts: Iterable[Tensor]) -> Tensor:
    """The sum of tensors, each of its own memory; of one at least."""
    left = iter(parts)
    total = next(left)
    for part in left:
        total += part
    return total


def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """The sum over rows of weight x row, in the type of the rows; it has the shape of a row."""
    if len(rows) == 1:  # which libraries of cards multiply much more slowly as matrices
        return rows[0] * weights[0].to(rows.dtype)
    total: Tensor = weights.to(rows.dtype) @ rows.reshape(rows.shape[0], -1)
    return total.view(rows.shape[1:])


def scaled(weights: Tensor, tensor: Tensor) -> Tensor:
    """Each example (axis 0) times its weight, in the type of the tensor."""
    return tensor * weights.to(tensor.dtype).view(-1, *[1] * (tensor.dim() - 1))
