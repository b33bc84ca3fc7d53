"""Outer products g a^T of examples, divided by scales: their norms and their boxed sum, without forming them.

numba compiles the function for the box when the first box is summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.clipping.rules.numbers import LARGEST
from discreet.core.array_types import Array
from discreet.randomness.machine_code import machine_code

_SAFE = 1e7
"""Squares of numbers between 1 / this and this are well within the range of single precision."""

_EVEN = 1e6
"""The largest ratio of two scales for which squares are formed in single precision."""

_NARROW = 128
"""Products with at most this many columns are computed transposed, which is faster (measured)."""

_LANES = 16
"""Rows are padded to a multiple of this, the numbers that a CPU handles at once."""

_ABREAST = 4
"""The number of examples that the loop handles together."""

_BELOW = 1 - 2.0**-23
"""With this factor, sides rounded to single precision do not exceed those in double precision."""

_PIECE = 64
"""The number of examples that are added up in single precision before the sum goes to double precision."""


def scaled_squares(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
    """The squared norm of g a^T / scale for each example, sum_ij g_i^2 a_j^2 / scale_ij^2: float64, shape (batch,).

    `a`: (batch, inputs). `g`: (batch, outputs). `scale`: (outputs, inputs), float64 and positive. This takes one matrix
    product. If `a` and `g` are in single precision, so is the product, for examples of moderate norms: numbers lost
    below its range are then negligible beside the norm. The rounding of a sum of positive terms is relative to the sum.
    """
    least, most = (float(end) for end in scale.aminmax())
    if a.shape[1] > g.shape[1]:
        a, g, scale = g, a, scale.T
    if a.dtype != torch.float32 or not most <= _EVEN * least:
        return _in_double(a, g, scale)
    inverse = (least / scale).square_().float()  # from 1e-12 to 1
    a_squares, g_squares = a.square(), g.square()
    narrow = a.shape[1] <= _NARROW
    products = (inverse.T.contiguous() @ g_squares.T).T if narrow else g_squares @ inverse
    squares = _dot(products, a_squares).div_(least**2)
    doubtful = ~(_moderate(a_squares) & _moderate(g_squares))
    if bool(doubtful.any()):
        squares[doubtful] = _in_double(a[doubtful], g[doubtful], scale)
    return squares


def _in_double(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
    """`scaled_squares` in float64. For single precision, infinite if g a^T may overflow or a factor is too long."""
    a_squares, g_squares = a.double().square(), g.double().square()
    squares = _dot(g_squares @ scale.square().reciprocal_(), a_squares)
    if a.dtype == torch.float32:
        ones, others = a_squares.sum(1), g_squares.sum(1)
        most = (LARGEST * min(1.0, float(scale.min()))) ** 2
        beyond = (torch.maximum(ones, others) > most) | (ones * others > torch.finfo(torch.float32).max ** 2)
        squares.masked_fill_(beyond, math.inf)
    return squares


def _dot(one: Tensor, other: Tensor) -> Tensor:
    """The dot product of each pair of rows, in double precision."""
    product: Tensor = torch.linalg.vecdot(one.double(), other.double())
    return product


def _moderate(squares: Tensor) -> Tensor:
    """Whether the sum of each row is neither large nor small; False for NaN."""
    sums = squares.sum(1)
    return (sums > _SAFE**-2) & (sums < _SAFE**2)


def boxed_sum(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
    """The sum over examples of g a^T / scale, with every number clipped to [-1, 1]: float64, the shape of `scale`.

    Shapes as for `scaled_squares`; for CPU tensors in single precision, with scales that fit into it. Every number of
    every term is computed, but none is stored.
    """
    outputs, inputs = scale.shape
    width = -(-inputs // _LANES) * _LANES
    count = -(-len(a) // _ABREAST) * _ABREAST
    values, slopes = np.zeros((count, width), np.float32), np.zeros((outputs, count), np.float32)
    values[: len(a), :inputs], slopes[:, : len(a)] = a.numpy(), g.T.numpy()
    sides = np.ones((outputs, width), np.float32)
    sides[:, :inputs] = (scale * _BELOW).numpy()
    total = np.zeros((outputs, width))
    _compiled()(values, slopes, sides, total)
    return torch.from_numpy(total[:, :inputs] / scale.numpy())


def _boxed_sum(values: Any, slopes: Any, sides: Any, total: Array) -> None:
    """Set `total` to the sums of slope x value, each clipped to +-side. `values`: (batch, width), `slopes`: (outputs,
    batch), `sides`: (outputs, width), float32; the batch is a multiple of 4."""
    count, width = values.shape
    piece = np.empty(width, np.float32)
    for row in range(total.shape[0]):
        own, slope, start = sides[row], slopes[row], 0
        while start < count:
            stop = min(start + _PIECE, count)
            for column in range(width):
                piece[column] = 0
            for place in range(start, stop, 4):
                a, b, c, d = slope[place], slope[place + 1], slope[place + 2], slope[place + 3]
                one, two, three, four = values[place], values[place + 1], values[place + 2], values[place + 3]
                for column in range(width):
                    side = own[column]
                    p, q, r, s = a * one[column], b * two[column], c * three[column], d * four[column]
                    p, q = side if p > side else p, side if q > side else q
                    r, s = side if r > side else r, side if s > side else s
                    p, q = -side if p < -side else p, -side if q < -side else q
                    r, s = -side if r < -side else r, -side if s < -side else s
                    piece[column] += (p + q) + (r + s)
            for column in range(width):
                total[row, column] += piece[column]
            start = stop


@cache
def _compiled() -> Callable[..., None]:
    signature = "void(float32[:, ::1], float32[:, ::1], float32[:, ::1], float64[:, ::1])"
    return machine_code(_boxed_sum, signature, exact=False)
