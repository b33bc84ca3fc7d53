"""Linear layers: the gradient of an example is a sum over positions of outer products, g_t a_t^T.

With one position the norm is |g| |a| (Goodfellow 2015, "Efficient per-example gradient computations"). With T
positions, the squared norm is the sum over pairs of positions of (a_t . a_s)(g_t . g_s) (Li et al. 2022, section 4,
"ghost clipping"), whose cost grows with T^2 instead of the size of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.clipping.factor import in_single
from discreet.clipping.rules import base, outer
from discreet.clipping.rules.base import Rule, rule
from discreet.clipping.rules.numbers import LARGEST, blank, norms_of, scaled, squared_norms, weighted_sum, with_rounding
from discreet.clipping.units import Units

_ROUNDED = 2**-6
"""Gram sums are enlarged for rounding by at most this share. Those that would need more are computed again, from the
products."""

_HALVED = 64
"""From this many positions on, Gram matrices are formed in halves (measured)."""

_NARROW = 8
"""Products with this many times fewer columns than rows are computed transposed, which is faster (measured)."""

MANY, NEW = 2**13, 70
"""The numbers of a gradient beyond which kept gradients need new memory, and the cost of each such number, in
multiplications (measured with 256 examples). Gram matrices need no such memory, so they are chosen even if they cost a
little more. The number of examples decides nothing: a norm must not depend on who else is in the batch."""


@rule(nn.Linear)
class LinearRule(Rule):
    """Linear layers. All axes between those of the examples and the features are positions."""

    @classmethod
    def of(cls, module: nn.Module, activation: Tensor, gradient: Tensor) -> LinearRule:
        """The rule for a linear map inside another module."""
        return cls(module, (), (activation,), {}, (gradient,))

    _products: Tensor | None = None
    _formed = False
    """Whether norms were those of products: then the total is formed from products as well, whether or not there was
    memory to keep them, so that what cancels within an example cancels in the total."""

    _biases: Tensor | None = None
    _squares_of_bias: Tensor | None = None

    _placed: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def _positions(self) -> tuple[Tensor, Tensor]:
        """Activation and gradient as (batch, positions, features)."""
        known, a, g = self._placed, self.activation, self.gradient
        if known is None or known[0] is not a or known[1] is not g:
            count = self.examples
            shaped = a.reshape(count, -1, a.shape[-1]), g.reshape(count, -1, g.shape[-1])
            known = self._placed = a, g, *shaped
        return known[2], known[3]

    def join(self, others: list[Rule]) -> Rule | None:
        if not all(type(other) is LinearRule for other in others):
            return None
        pairs = [other._positions() for other in [self, *others] if isinstance(other, LinearRule)]
        self.activation = torch.cat([a for a, _ in pairs], 1)
        self.gradient = torch.cat([g for _, g in pairs], 1)
        return self

    def of_units(self, units: Units) -> Rule:
        """The rows of a unit become further positions, with the gradient divided by the number of rows."""
        a, g = self._positions()
        share = units.shared(torch.ones(len(units), dtype=g.dtype, device=g.device))
        self.activation, self.gradient = units.side_by_side(a), units.side_by_side(g * share.view(-1, 1, 1))
        return self

    def squares(self, name: str) -> Tensor:
        a, g = self._positions()
        if name == "bias":
            return self._bias_squares(g)
        if a.shape[1] == 1:
            return squared_norms(a) * self._bias_squares(g)
        positions, size = a.shape[1], a.shape[2] * g.shape[2]
        products, gram = positions * size, positions**2 * (a.shape[2] + g.shape[2])
        many = size > MANY
        if products + (NEW if many else 2) * size > (0.8 if many else 1.0) * (gram + products) and gram <= products:
            return self._in_blocks(a, g, 2 * positions**2, gram_and_rounding)
        self._formed = True
        if self.examples * size * a.element_size() > base.BUDGET:
            return self._in_blocks(a, g, size, _from_products)
        self._products = torch.bmm(g.transpose(1, 2), a)
        return squared_norms(self._products)

    def squares_with_table(self, tokens: Tensor, spread: Tensor, terms: Tensor) -> Tensor | None:
        """The squared norms for a weight that is an embedding's table as well: `spread` (batch, T, features), the
        gradients at `tokens` (batch, T), are added to the products, so `total` contains them. None, and nothing added,
        where there is no memory for the products of all examples. `terms`: the embedding's `lengths`."""
        a, g = self._positions()
        if self.examples * a.shape[2] * g.shape[2] * a.element_size() > base.BUDGET:
            return None
        self._products = torch.bmm(g.transpose(1, 2), a)
        count, size, features = self._products.shape
        places = tokens + size * torch.arange(count, device=tokens.device).unsqueeze(1)
        self._products.view(-1, features).index_add_(0, places.reshape(-1), spread.flatten(0, 1))
        terms, number = terms + outer_lengths(a, g), a.shape[1] + tokens.shape[1]
        return with_rounding(squared_norms(self._products), terms, g.dtype, number)

    def terms(self, name: str) -> int:
        return 1 if name == "bias" else self._positions()[0].shape[1]

    def lengths(self, name: str) -> Tensor:
        a, g = self._positions()
        return super().lengths(name) if name == "bias" or a.shape[1] == 1 else outer_lengths(a, g)

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        a, g = self._positions()
        if name == "bias" or a.shape[1] == 1:
            return super().scaled_lengths(name, scale)
        squares = outer.scaled_squares(a.flatten(0, 1), g.flatten(0, 1), scale)
        return squares.sqrt().view(len(a), -1).sum(1)

    def scaled_squares(self, name: str, scale: Tensor) -> Tensor | None:
        a, g = self._positions()
        if name == "bias":
            return outer.scaled_squares(a.new_ones(len(a), 1), self._bias_rows(g), scale.unsqueeze(1))
        if a.shape[1] > 1:
            return None  # the sum over positions comes before the square
        return outer.scaled_squares(a.squeeze(1), g.squeeze(1), scale)

    def boxed_total(self, name: str, scale: Tensor) -> Tensor | None:
        a, g = self._positions()
        single = a.dtype == torch.float32 and a.device.type == "cpu" and in_single(scale)
        if name == "bias" or a.shape[1] > 1 or not single:
            return None
        return outer.boxed_sum(a.squeeze(1), g.squeeze(1), scale)

    def total(self, name: str, weights: Tensor) -> Tensor:
        if name == "bias" and self._biases is not None:
            return weights.to(self._biases.dtype) @ self._biases
        if name == "weight" and self._products is not None:
            return weighted_sum(weights, self._products)
        a, g = self._positions()
        if name == "bias":
            return weights.to(g.dtype) @ self._bias_rows(g)
        if self._formed:
            return self._sum_of_products(a, g, weights)
        if a.shape[2] * _NARROW <= g.shape[2]:
            return (scaled(weights, a).flatten(0, 1).T @ g.flatten(0, 1)).T.contiguous()
        if a.shape[2] < g.shape[2]:  # the weights are multiplied into the smaller factor
            return g.flatten(0, 1).T @ scaled(weights, a).flatten(0, 1)
        return scaled(weights, g).flatten(0, 1).T @ a.flatten(0, 1)

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        a, g = (part[start:stop] for part in self._positions())
        return g.sum(1) if name == "bias" else torch.bmm(g.transpose(1, 2), a)

    def forget(self) -> None:
        self._squares_of_bias = self._placed = None
        if self._products is not None and ("bias" not in self.trained or self._biases is not None):
            self.activation = self.gradient = base.NOTHING

    def drop(self, unusable: Tensor) -> None:
        if self.activation is not base.NOTHING:
            super().drop(unusable)
        if self._biases is not None:
            self._biases = blank(self._biases, unusable)
        if self._products is not None:
            self._products = blank(self._products, unusable)

    def _bias_rows(self, gradient: Tensor) -> Tensor:
        if self._biases is None:
            self._biases = gradient.squeeze(1) if gradient.shape[1] == 1 else gradient.sum(1)
        return self._biases

    def _bias_squares(self, gradient: Tensor) -> Tensor:
        if self._squares_of_bias is None:
            self._squares_of_bias = squared_norms(self._bias_rows(gradient))
        return self._squares_of_bias

    def _in_blocks(self, a: Tensor, g: Tensor, numbers: int, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`function` on blocks of examples, where one example needs room for `numbers` numbers."""
        size = _at_once(a, numbers)
        return torch.cat([function(x, y) for x, y in zip(torch.split(a, size), torch.split(g, size), strict=True)])

    def _sum_of_products(self, a: Tensor, g: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of products that are formed again, block by block."""
        total = a.new_zeros(g.shape[2], a.shape[2])
        size = _at_once(a, a.shape[2] * g.shape[2])
        for x, y, share in zip(*(torch.split(part, size) for part in (a, g, weights)), strict=True):
            total += weighted_sum(share, torch.bmm(y.transpose(1, 2), x))
        return total


def _at_once(a: Tensor, numbers: int) -> int:
    """For how many examples there is room, if one needs room for `numbers` numbers."""
    return max(1, base.BUDGET // max(1, numbers * a.element_size()))


def _from_products(a: Tensor, g: Tensor) -> Tensor:
    return squared_norms(torch.bmm(g.transpose(1, 2), a))


def outer_lengths(a: Tensor, g: Tensor) -> Tensor:
    """The sum of the norms of the outer products g_t a_t^T of each example: float64, shape (batch,). Infinite if, in
    single precision, a factor is longer than `LARGEST`."""
    ones, others = norms_of(a, 2), norms_of(g, 2)
    lengths = (ones * others).sum(1)
    if a.dtype == torch.float32:
        lengths.masked_fill_((torch.maximum(ones, others) > LARGEST).any(1), math.inf)
    return lengths


def gram_and_rounding(a: Tensor, g: Tensor) -> Tensor:
    """`gram_squares`, enlarged by the rounding of the weighted sum, which other code forms."""
    squares, unrelated = gram_squares(a, g)
    return with_rounding(squares, (a.shape[1] * unrelated).sqrt(), g.dtype, a.shape[1])


def gram_squares(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms of sums over positions of outer products g_t a_t^T, by Gram matrices, and their values if the
    terms were orthogonal; float64, shape (batch,).

    The squared norms are enlarged by what rounding may have taken from them (`_rounding`). Where that is more than
    `_ROUNDED` of them, because positions cancel, the products themselves are measured instead, in double precision, and
    enlarged by that much.
    """
    positions = a.shape[1]
    half = positions // 2 if positions >= _HALVED else 0
    squares, unrelated = a.new_zeros(2, len(a), dtype=torch.float64)
    ours, theirs = _Gram(a), _Gram(g)
    for start, stop in ((half, positions), (0, half)) if half else ((0, positions),):
        pairs = ours.block(start, stop).mul_(theirs.block(start, stop))
        squares += _mirrored(pairs, start, lambda block: block.sum(2).sum(1, dtype=torch.float64))
        unrelated += pairs[:, :, start:].diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
    lost = _lost(ours.trace, theirs.trace, (a.shape[2], g.shape[2]), positions, a.dtype)
    squares, unrelated = squares + lost, unrelated + lost
    rounding = _rounding(ours, theirs)
    doubtful = rounding > _ROUNDED * squares
    squares += rounding
    if bool(doubtful.any()):
        for i in doubtful.nonzero().flatten().tolist():
            squares[i] = (1 + _ROUNDED) * _from_products(a[i : i + 1].double(), g[i : i + 1].double())[0]
    return squares, unrelated


class _Gram:
    """The Gram matrices of vectors (batch, positions, features), formed in blocks; and their `trace`, the sum over
    positions of |x_t|^2: float64, shape (batch,)."""

    def __init__(self, vectors: Tensor) -> None:
        self._vectors, self.dtype = vectors, vectors.dtype
        _, self.positions, self.size = vectors.shape
        self.trace, self._squares = vectors.new_zeros(2, len(vectors), dtype=torch.float64)

    def block(self, start: int, stop: int) -> Tensor:
        """x_t . x_s for t in start .. stop - 1 and s in 0 .. stop - 1."""
        products = torch.bmm(self._vectors[:, start:stop], self._vectors[:, :stop].transpose(1, 2))
        self.trace += products[:, :, start:].diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)
        self._squares += _mirrored(products, start, _squared)
        return products

    def norm(self) -> Tensor:
        """An upper bound on the Frobenius norms, but for rounding. A matrix without negative eigenvalues has none that
        is longer than its trace, which holds where squares are beyond the range of single precision as well."""
        beyond = (self.trace < 1e-10) | (self.trace > 1e16)
        return torch.where(beyond, self.trace, self._squares.sqrt())


def _rounding(ours: _Gram, theirs: _Gram) -> Tensor:
    """The most that rounding takes from a sum over pairs of positions of (a_t . a_s)(g_t . g_s), in whatever order sums
    are formed: float64, shape (batch,).

    With u half a unit in the last place, a dot product of n numbers errs by at most n u |a_t| |a_s|. So the sum errs by
    at most n u x the sum of |a_t| |a_s| |g_t . g_s|, which by the Cauchy-Schwarz inequality is at most n u x the sum
    of |a_t|^2 x the Frobenius norm of the g_t . g_s; and likewise for g. Adding up a row of pairs errs by the number of
    positions x u x the sum of |a_t . a_s| |g_t . g_s|, at most the product of both Frobenius norms.
    """
    a_norm, g_norm = ours.norm(), theirs.norm()
    dots = (ours.size + 2) * ours.trace * g_norm + (theirs.size + 2) * theirs.trace * a_norm
    bound: Tensor = torch.finfo(ours.dtype).eps / 2 * (dots + ours.positions * a_norm * g_norm)
    return bound


def _mirrored(block: Tensor, start: int, added: Callable[[Tensor], Tensor]) -> Tensor:
    """`added` of a block of a symmetric matrix (see `_Gram.block`) and of its mirror image above the diagonal."""
    return added(block) + added(block[:, :, :start]) if start else added(block)


def _squared(block: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(block, dim=2)
    return norms.double().square_().sum(1)


def _lost(a_trace: Tensor, g_trace: Tensor, sizes: tuple[int, int], positions: int, dtype: torch.dtype) -> Tensor:
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
