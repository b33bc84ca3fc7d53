"""A table of tokens that is also the weight of a linear layer: both gradients become one sum before they are measured.

An example's gradient is E + L: E adds the gradient of the embedding's output to the row of each token, and L is the
product of the linear layer. Products of all examples are kept, and E is added to them in place. So the norms are those
of the very numbers that are summed, and terms that cancel leave no rounding that was not measured. (Norms from inner
products of E and L would lose what cancels.)
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from discreet.clipping.rules import Rule
from discreet.clipping.rules.embedding import EmbeddingRule
from discreet.clipping.rules.linear import LinearRule


def joined(shares: Sequence[tuple[Rule, str]]) -> tuple[list[tuple[Rule, str]], Tensor] | None:
    """One share in the place of those of an embedding and a linear layer, and the squared norm of each example's
    gradient: float64, shape (batch,). None for other `shares`, and where there is no memory for all products.

    A share is a rule with the name by which its module knows the weight.
    """
    if len(shares) != 2:
        return None
    (one, table), (other, name) = sorted(shares, key=lambda share: type(share[0]) is LinearRule)
    if type(one) is not EmbeddingRule or type(other) is not LinearRule:
        return None
    squares = other.squares_with_table(one.activation, one.spread(), one.lengths(table), one.terms(table))
    return None if squares is None else ([(other, name)], squares)
