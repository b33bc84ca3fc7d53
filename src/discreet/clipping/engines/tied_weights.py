"""Norms of a table of tokens that is also the weight of a linear layer, without gradients of its size.

An example's gradient is E + L. E adds the gradient d_t of the embedding's output to the row of token t, and L is the
sum over positions of g_s a_s^T. So |E + L|^2 = |E|^2 + |L|^2 + 2 <E, L>, and

    <E, L> = sum over t and s of g_s[token t] (d_t . a_s),

which needs two matrices of positions by positions (as the ghost norm of Li et al. 2022, section 4, for one layer).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from discreet.clipping.rules import Rule
from discreet.clipping.rules.embedding import EmbeddingRule
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.numbers import squared_norms, wide_type, with_rounding

_CANCELLED = 16
"""Where the sum is this many times smaller than its terms, the gradient itself is formed and measured."""


def tied_squares(shares: Sequence[tuple[Rule, str]]) -> Tensor | None:
    """The squared norm of each example's gradient for a weight that an embedding and a linear layer share: float64,
    shape (batch,). None for any other `shares` (rules, each with its module's name of the weight)."""
    if len(shares) != 2:
        return None
    (one, name), (other, other_name) = shares
    if type(other) is EmbeddingRule:
        (one, name), (other, other_name) = (other, other_name), (one, name)
    if type(one) is not EmbeddingRule or type(other) is not LinearRule:
        return None
    apart = one.squares(name) + other.squares(other_name)
    squares = apart + 2 * other.inner_products(one.activation, one.spread())
    for row in (~(squares * _CANCELLED >= apart)).nonzero().flatten().tolist():  # also where it is NaN
        formed = one.rows(name, row, row + 1).double() + other.rows(other_name, row, row + 1).double()
        squares[row] = squared_norms(formed)[0]
    terms = one.lengths(name) + other.lengths(other_name)
    return with_rounding(squares, terms, 2, wide_type(one.module.get_parameter(name).dtype))
