"""Linear layers: the gradient of an example is a sum over positions of outer products, g_t a_t^T.

With one position the norm is |g| |a| (Goodfellow 2015, "Efficient per-example gradient computations"). With several it
is that of their product, or comes from Gram matrices (`products.gram`), whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.clipping.factor import in_single
from discreet.clipping.rules import base
from discreet.clipping.rules.base import Rule, rule
from discreet.clipping.rules.numbers import (
    HALF,
    LARGEST,
    blank,
    examples_together,
    norms_of,
    scaled,
    squared_norms,
    weighted_sum,
    wide,
    wide_type,
    with_rounding,
)
from discreet.clipping.rules.products import outer
from discreet.clipping.rules.products.gram import gram_and_rounding
from discreet.clipping.rules.products.half import additions, factors, products
from discreet.clipping.rules.products.stack import Stack
from discreet.clipping.units import Units

_NARROW = 8
"""Products with this many times fewer columns than rows are computed transposed, which is faster (measured)."""

MANY, NEW = 2**13, 70
"""The numbers of a gradient beyond which kept gradients need new memory, and the cost of each such number, in
multiplications (measured with 256 examples). Gram matrices need no such memory, so they are chosen even if they cost a
little more. The number of examples decides nothing: a norm must not depend on who else is in the batch."""


@rule(nn.Linear)
class LinearRule(Rule):
    """Linear layers. All axes between those of the examples and the features are positions."""

    takes_positions = True
    kept = staticmethod(factors)

    @classmethod
    def of(cls, module: nn.Module, activation: Tensor, gradient: Tensor) -> LinearRule:
        """The rule for a linear map inside another module."""
        return cls(module, (), (activation,), {}, (gradient,))

    _products: Tensor | None = None
    _stack: tuple[Stack, int] | None = None
    """The stack that holds these products beside those of other layers, and their place in it."""

    _formed = False
    """Whether norms were those of products: then the total is formed from products as well, whether or not there was
    memory to keep them, so that what cancels within an example cancels in the total."""

    _limit = 0
    """The positions that a unit may have, a public number; 0 where examples are rows, which have as many each."""

    _own: Tensor | None = None
    """The positions that each unit has, float64; those after them are filled with zeros."""

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
        a, g = (wide(part) for part in self._positions())
        self._limit, self._own = units.limit * a.shape[1], (units.counts * a.shape[1]).to(a.device, torch.float64)
        share = units.shared(torch.ones(len(units), dtype=g.dtype, device=g.device))
        self.activation, self.gradient = units.side_by_side(a), units.side_by_side(g * share.view(-1, 1, 1))
        return self

    def squares(self, name: str) -> Tensor:
        kept = self.form_rows(name)
        if kept is not None:
            return squared_norms(kept)
        a, g = self._positions()
        if name == "bias":
            return self._bias_squares(g)
        if a.shape[1] == 1:
            return squared_norms(a) * self._bias_squares(g)
        if self._formed:
            return self._in_blocks(a, g, a.shape[2] * g.shape[2], _from_products)
        squares = self._in_blocks(a, g, 2 * a.shape[1] ** 2, gram_and_rounding)
        if self._own is None or a.shape[1] == 0:
            return squares
        return torch.where(self._own > 1, squares, squared_norms(a[:, 0]) * squared_norms(g[:, 0]))

    def form_rows(self, name: str, most: int | None = None) -> Tensor | None:
        a, g = self._positions()
        positions, size = self._limit or a.shape[1], a.shape[2] * g.shape[2]
        if name == "bias" or positions == 1 or _by_gram(positions, size, a.shape[2] + g.shape[2]):
            return None
        needed = self.examples * size * _bytes(a)
        if most is not None and needed > most:
            return None
        self._formed = True
        if needed <= base.BUDGET:
            self._products = products(g.transpose(1, 2), a)
        return self._products

    def lie_in(self, stack: Stack, place: int) -> None:
        self._products, self._stack = stack.rows[:, place], (stack, place)
        self._held, self._versions = (), ()

    def squares_with_table(self, tokens: Tensor, spread: Tensor, terms: Tensor, count: int | Tensor) -> Tensor | None:
        """The squared norms for a weight that is an embedding's table as well: `spread` (batch, T, features), the
        gradients at `tokens` (batch, T), are added to the products, so `total` contains them. None, and nothing added,
        where there is no memory for the products of all examples. `terms`, `count`: the embedding's `lengths` and
        `terms`."""
        a, g = self._positions()
        if self.examples * a.shape[2] * g.shape[2] * _bytes(a) > base.BUDGET:
            return None
        self._products = products(g.transpose(1, 2), a)
        examples, size, features = self._products.shape
        places = tokens + size * torch.arange(examples, device=tokens.device).unsqueeze(1)
        self._products.view(-1, features).index_add_(0, places.reshape(-1), spread.flatten(0, 1))
        terms, count = terms + outer_lengths(a, g), count + self.terms("weight")
        return with_rounding(squared_norms(self._products), terms, wide_type(g.dtype), count)

    def terms(self, name: str) -> int | Tensor:
        a, g = self._positions()
        return 1 if name == "bias" else additions(g, a.shape[1] if self._own is None else self._own)

    def lengths(self, name: str) -> Tensor:
        a, g = self._positions()
        return super().lengths(name) if name == "bias" or (self._limit or a.shape[1]) == 1 else outer_lengths(a, g)

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        a, g = self._positions()
        if name == "bias" or (self._limit or a.shape[1]) == 1:
            return super().scaled_lengths(name, scale)
        return scaled_outer_lengths(a, g, scale)

    def scaled_squares(self, name: str, scale: Tensor) -> Tensor | None:
        a, g = self._positions()
        if name == "bias":
            rows = self._bias_rows(g)
            return outer.scaled_squares(rows.new_ones(len(rows), 1), rows, scale.unsqueeze(1))
        if (self._limit or a.shape[1]) > 1:
            return None  # the sum over positions comes before the square
        return outer.scaled_squares(a.squeeze(1), g.squeeze(1), scale)

    def boxed_total(self, name: str, scale: Tensor) -> Tensor | None:
        a, g = self._positions()
        single = a.dtype == torch.float32 and a.device.type == "cpu" and in_single(scale)
        if name == "bias" or (self._limit or a.shape[1]) > 1 or not single:
            return None
        return outer.boxed_sum(a.squeeze(1), g.squeeze(1), scale)

    def total(self, name: str, weights: Tensor) -> Tensor:
        if name == "bias" and self._biases is not None:
            return weights.to(self._biases.dtype) @ self._biases
        if name == "weight" and self._stack is not None:
            return self._stack[0].total(self._stack[1], weights)
        if name == "weight" and self._products is not None:
            return weighted_sum(weights, self._products)
        a, g = self._positions()
        if name == "bias":
            return weights.to(wide_type(g.dtype)) @ self._bias_rows(g)
        if self._formed or g.dtype in HALF:  # a weight times a gradient has more digits than half precision
            return self._sum_of_products(a, g, weights)
        positions = self._limit or a.shape[1]
        return _weighted_products(a, g, weights, len(a) if positions == 1 else examples_together(positions))

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        a, g = (part[start:stop] for part in self._positions())
        return _over_positions(g) if name == "bias" else products(g.transpose(1, 2), a)

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
            self._products, self._stack = blank(self._products, unusable), None

    def _bias_rows(self, gradient: Tensor) -> Tensor:
        if self._biases is None:
            self._biases = _over_positions(gradient)
        return self._biases

    def _bias_squares(self, gradient: Tensor) -> Tensor:
        if self._squares_of_bias is None:
            self._squares_of_bias = squared_norms(self._bias_rows(gradient))
        return self._squares_of_bias

    def _in_blocks(
        self, a: Tensor, g: Tensor, numbers: int, function: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    ) -> Tensor:
        """`function` on blocks of examples and the positions of each unit, where one example needs room for `numbers`
        numbers."""
        size = _at_once(a, numbers)
        parts = [torch.split(part, size) for part in (a, g)]
        own = [None] * len(parts[0]) if self._own is None else torch.split(self._own, size)
        return torch.cat([function(*block) for block in zip(*parts, own, strict=True)])

    def _sum_of_products(self, a: Tensor, g: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of products that are formed again, block by block."""
        total = a.new_zeros(g.shape[2], a.shape[2], dtype=wide_type(a.dtype))
        size = _at_once(a, a.shape[2] * g.shape[2])
        for x, y, share in zip(*(torch.split(part, size) for part in (a, g, weights)), strict=True):
            total += weighted_sum(share, products(y.transpose(1, 2), x))
        return total


def _weighted_products(a: Tensor, g: Tensor, weights: Tensor, together: int) -> Tensor:
    """The sum over examples and positions of weight x g a^T, of so many examples `together` at a time.

    Their terms are added up before the total is added to them: some libraries for processors, for small matrices, add
    terms one by one to a total that they are given, and each would be lost beside a long one.
    """
    turned = a.shape[2] * _NARROW <= g.shape[2]
    if a.shape[2] < g.shape[2]:  # the weights are multiplied into the smaller factor
        a = scaled(weights, a)
    else:
        g = scaled(weights, g)
    left, right = (torch.split(part.flatten(0, 1), together * part.shape[1]) for part in ((a, g) if turned else (g, a)))
    total = left[0].T @ right[0]
    for one, other in zip(left[1:], right[1:], strict=True):
        total = total.addmm_(one.T, other) if total.is_cuda else total.add_(one.T @ other)
    return total.T.contiguous() if turned else total


def _over_positions(g: Tensor) -> Tensor:
    """The sum over positions of (batch, positions, features), at least in single precision."""
    return wide(g.squeeze(1)) if g.shape[1] == 1 else g.sum(1, dtype=wide_type(g.dtype))


def _by_gram(positions: int, size: int, sides: int) -> bool:
    """Whether norms by Gram matrices cost less than forming the gradients, of `size` numbers for each example.
    `sides`: how many numbers inputs and output gradients have together at a position."""
    formed, gram = positions * size, positions**2 * sides
    many = size > MANY
    return formed + (NEW if many else 2) * size > (0.8 if many else 1.0) * (gram + formed) and gram <= formed


def _bytes(a: Tensor) -> int:
    """The bytes of a number of a product with `a`."""
    return wide_type(a.dtype).itemsize


def _at_once(a: Tensor, numbers: int) -> int:
    """For how many examples there is room, if one needs room for `numbers` numbers."""
    return base.room_for(numbers * _bytes(a))


def _from_products(a: Tensor, g: Tensor, _: Tensor | None) -> Tensor:
    return squared_norms(products(g.transpose(1, 2), a))


def outer_lengths(a: Tensor, g: Tensor) -> Tensor:
    """The sum of the norms of the outer products g_t a_t^T of each example: float64, shape (batch,). Infinite if, in
    single precision, a factor is longer than `LARGEST`."""
    ones, others = norms_of(a, 2), norms_of(g, 2)
    lengths = (ones * others).sum(1)
    if wide_type(a.dtype) == torch.float32:
        lengths.masked_fill_((torch.maximum(ones, others) > LARGEST).any(1), math.inf)
    return lengths


def scaled_outer_lengths(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
    """`outer_lengths` of products that are divided by `scale`, (outputs, inputs)."""
    squares = outer.scaled_squares(wide(a).flatten(0, 1), wide(g).flatten(0, 1), scale)
    return squares.sqrt().view(len(a), -1).sum(1)
