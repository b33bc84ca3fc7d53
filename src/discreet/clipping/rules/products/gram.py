"""Gram matrices: the norm of a sum over positions of outer products g_t a_t^T, without forming it.

The squared norm is the sum over pairs of positions of (a_t . a_s)(g_t . g_s) (Li et al. 2022, section 4, "ghost
clipping"), whose cost grows with the square of the number of positions instead of the size of the weight.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discreet.clipping.rules.numbers import squared_norms, wide_type, with_rounding
from discreet.clipping.rules.products.half import additions, products, unit_roundoff

_ROUNDED = 2**-6
"""Gram sums are enlarged for rounding by at most this share. Those that would need more are computed again, from the
products."""

_HALVED = 64
"""From this many positions on, Gram matrices are formed in halves (measured)."""


def gram_and_rounding(a: Tensor, g: Tensor, own: Tensor | None = None) -> Tensor:
    """`gram_squares`, enlarged by the rounding of the weighted sum, which other code forms."""
    squares, unrelated = gram_squares(a, g, own)
    count = a.shape[1] if own is None else own
    return with_rounding(squares, (count * unrelated).sqrt(), wide_type(g.dtype), additions(g, count))


def gram_squares(a: Tensor, g: Tensor, own: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Squared norms of sums over positions of outer products g_t a_t^T, by Gram matrices, and their values if the
    terms were orthogonal; float64, shape (batch,). `own`: how many positions each has, if further ones are zeros.

    The squared norms are enlarged by what rounding may have taken from them (`_rounding`). Where that is more than
    `_ROUNDED` of them, because positions cancel, the products themselves are measured instead, in double precision, and
    enlarged by that much.
    """
    positions, count = a.shape[1], a.shape[1] if own is None else own
    half = positions // 2 if positions >= _HALVED else 0
    squares, unrelated = a.new_zeros(2, len(a), dtype=torch.float64)
    ours, theirs = _Gram(a), _Gram(g)
    for start, stop in ((half, positions), (0, half)) if half else ((0, positions),):
        pairs = ours.block(start, stop).mul_(theirs.block(start, stop))
        squares += _mirrored(pairs, start, lambda block: block.sum(2).sum(1, dtype=torch.float64))
        unrelated += pairs[:, :, start:].diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
    lost = _lost(ours.trace, theirs.trace, (a.shape[2], g.shape[2]), count, wide_type(a.dtype))
    squares, unrelated = squares + lost, unrelated + lost
    rounding = _rounding(ours, theirs, count)
    doubtful = rounding > _ROUNDED * squares
    squares += rounding
    if bool(doubtful.any()):
        for i in doubtful.nonzero().flatten().tolist():
            squares[i] = (1 + _ROUNDED) * squared_norms(
                products(g[i : i + 1].double().transpose(1, 2), a[i : i + 1].double())
            )[0]
    return squares, unrelated


class _Gram:
    """The Gram matrices of vectors (batch, positions, features), formed in blocks; and their `trace`, the sum over
    positions of |x_t|^2: float64, shape (batch,)."""

    def __init__(self, vectors: Tensor) -> None:
        self._vectors, self.dtype = vectors, vectors.dtype
        self.size = vectors.shape[2]
        self.trace, self._squares = vectors.new_zeros(2, len(vectors), dtype=torch.float64)

    def block(self, start: int, stop: int) -> Tensor:
        """x_t . x_s for t in start .. stop - 1 and s in 0 .. stop - 1."""
        dots = products(self._vectors[:, start:stop], self._vectors[:, :stop].transpose(1, 2))
        self.trace += dots[:, :, start:].diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
        self._squares += _mirrored(dots, start, _squared)
        return dots

    def norm(self) -> Tensor:
        """An upper bound on the Frobenius norms, but for rounding. A matrix without negative eigenvalues has none that
        is longer than its trace, which holds where squares are beyond the range of single precision as well."""
        beyond = (self.trace < 1e-10) | (self.trace > 1e16)
        return torch.where(beyond, self.trace, self._squares.sqrt())


def _rounding(ours: _Gram, theirs: _Gram, positions: int | Tensor) -> Tensor:
    """The most that rounding takes from a sum over pairs of positions of (a_t . a_s)(g_t . g_s), in whatever order sums
    are formed: float64, shape (batch,).

    With u the rounding of an addition (`unit_roundoff`), a dot product of n numbers errs by at most n u |a_t| |a_s|. So
    the sum errs by at most n u x the sum of |a_t| |a_s| |g_t . g_s|, which by the Cauchy-Schwarz inequality is at most
    n u x the sum of |a_t|^2 x the Frobenius norm of the g_t . g_s; and likewise for g. Adding up a row of pairs errs by
    the number of positions x u x the sum of |a_t . a_s| |g_t . g_s|, at most the product of both Frobenius norms.
    """
    a_norm, g_norm = ours.norm(), theirs.norm()
    dots = (ours.size + 2) * ours.trace * g_norm + (theirs.size + 2) * theirs.trace * a_norm
    bound: Tensor = unit_roundoff(ours.dtype) * (dots + positions * a_norm * g_norm)
    return bound


def _mirrored(block: Tensor, start: int, added: Callable[[Tensor], Tensor]) -> Tensor:
    """`added` of a block of a symmetric matrix (see `_Gram.block`) and of its mirror image above the diagonal."""
    return added(block) + added(block[:, :, :start]) if start else added(block)


def _squared(block: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(block, dim=2)
    return norms.double().square_().sum(1)


def _lost(
    a_trace: Tensor, g_trace: Tensor, sizes: tuple[int, int], positions: int | Tensor, dtype: torch.dtype
) -> Tensor:
    """The most that a sum over pairs of positions can lack because products are below the range of the type: float64,
    shape (batch,). `a_trace`, `g_trace`: the sums of |a_t|^2 and |g_t|^2. `sizes`: the numbers of a position in a, g.

    A sum of n products lacks at most n u, where u is the smallest normal number. So for vectors of m and n numbers,
    (a_t . a_s)(g_t . g_s) lacks at most m u |g_t . g_s| + n u |a_t . a_s| + m n u^2 + u. By the Cauchy-Schwarz
    inequality the sum over pairs of |a_t . a_s| is at most positions x the sum of |a_t|^2, which itself lacks at most
    positions x m u.
    """
    tiny = torch.finfo(dtype).tiny
    a_room, g_room = (positions * size * tiny for size in sizes)
    return a_room * g_trace + g_room * a_trace + (3 * a_room * g_room + positions**2 * tiny)
