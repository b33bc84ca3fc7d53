"""Embeddings: an example's gradient is zero except in the rows of its tokens; gradients of equal tokens add up.

No one-hot matrix is formed, and no gradient of the size of the table for each example: equal tokens are brought
together by a compiled loop on CPUs, and by sorting elsewhere. If all positions of an example have the same gradient,
as under a mean over positions, the norm needs only counts of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.rules.base import Rule, refuse, rule
from discreet.clipping.rules.numbers import LARGEST, blank, norms_of, squared_norms, wide, with_rounding
from discreet.clipping.rules.token_sums import alike, checked_tokens, token_squares, token_table
from discreet.clipping.rules.tokens import EqualTokens
from discreet.clipping.units import Units


@rule(nn.Embedding)
class EmbeddingRule(Rule):
    """Embeddings, with any axes between examples and features. Tokens equal to `padding_idx` have no gradient."""

    names = ("weight",)
    takes_positions = True
    _groups: EqualTokens | None = None
    _own: Tensor | None = None
    """The number of tokens that each unit has, float64; those after them are filled up."""

    _sums: Tensor

    def __init__(self, module: nn.Module, *captured: Any) -> None:
        super().__init__(module, *captured)
        assert isinstance(module, nn.Embedding)
        if module.max_norm is not None:
            raise refuse(module, "with max_norm changes its weight in the forward pass; set max_norm=None")
        tokens, count = self.activation, len(self.activation)
        self.activation = checked_tokens(tokens.reshape(count, -1), module.num_embeddings)
        self.gradient = self.gradient.reshape(count, -1, self.gradient.shape[-1])
        self.factors: Tensor | None = None
        """The factor of each token's gradient, shape (batch, tokens); None if all factors are 1."""
        if self._same_everywhere():
            self.gradient = self.gradient[:, 0].clone()  # cloned, so that the others are freed
            self.factors = torch.ones_like(self.activation, dtype=self.gradient.dtype)
        if module.padding_idx is not None:
            self._without(module.padding_idx)

    @classmethod
    def covers(cls, module: nn.Module) -> bool:
        return not getattr(module, "scale_grad_by_freq", False)

    def squares(self, name: str) -> Tensor:
        count = self.activation.shape[1]
        if count == 0:
            return torch.zeros(self.examples, dtype=torch.float64, device=self.gradient.device)
        dtype = torch.float64 if self._on_processor else self.gradient.dtype  # the type of the table
        return with_rounding(self._squares(), self.lengths(name), dtype, self.terms(name))

    def lengths(self, name: str) -> Tensor:
        # By the Cauchy-Schwarz inequality, also with factors, where it is not needed: whether there are any depends on
        # other examples, which must not decide how long the terms of this one are, or whether they overflow.
        whole = squared_norms(self.gradient)
        if self.factors is not None:
            whole = whole * norms_of(self.factors, 1).square_()
            if self.gradient.dtype != torch.float64:
                whole.masked_fill_(whole > LARGEST**2, math.inf)
        return (whole * self.terms(name)).sqrt()

    def terms(self, name: str) -> int | Tensor:
        return self.activation.shape[1] if self._own is None else self._own

    def _squares(self) -> Tensor:
        if self._on_processor:
            values = self.gradient if self.factors is None else self.factors.unsqueeze(2)
            squares = token_squares(self.activation, values, self._size)
            return squares if self.factors is None else squares * squared_norms(self.gradient)
        sums, groups = self._measured()
        squares = torch.zeros(self.examples, dtype=torch.float64, device=sums.device)
        squares.index_add_(0, groups.examples, squared_norms(sums))
        return squares if self.factors is None else squares * squared_norms(self.gradient)

    def total(self, name: str, weights: Tensor) -> Tensor:
        if self._on_processor:
            ones = torch.ones_like(self.activation, dtype=torch.float64) if self.factors is None else self.factors
            return token_table(self.activation, self.gradient, weights.unsqueeze(1) * ones, self._size)
        sums, groups = self._measured()
        weights = weights.to(sums.dtype)[groups.examples]
        if self.factors is None:
            return groups.table(self._size, groups.range, sums, weights)
        return groups.table(self._size, groups.examples, self.gradient, weights * sums[:, 0])

    @property
    def _size(self) -> int:
        """The number of rows of the table."""
        return len(self.module.get_parameter("weight"))

    @property
    def _on_processor(self) -> bool:
        """Whether the compiled functions can be used, which read every token once; elsewhere tokens are sorted."""
        return self.gradient.device.type == "cpu"

    def of_units(self, units: Units) -> Rule:
        """The tokens of a unit's rows become one sequence, with gradients divided by the number of rows."""
        spread = self.spread()
        share = units.shared(torch.ones(len(units), dtype=spread.dtype, device=spread.device))
        self._own = (units.counts * self.activation.shape[1]).to(spread.device, torch.float64)
        self.activation = units.side_by_side(self.activation)
        self.gradient, self.factors = units.side_by_side(spread * share.view(-1, 1, 1)), None
        return self

    def _measured(self) -> tuple[Tensor, EqualTokens]:
        """The sums over equal tokens of an example: of gradients, or of factors if all gradients are the same."""
        if self._groups is None:
            self._groups = EqualTokens(self.activation)
            values = self.gradient.flatten(0, 1) if self.factors is None else self.factors.reshape(-1, 1)
            self._sums = self._groups.sums(values)
        return self._sums, self._groups

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        weight, count = self.module.get_parameter("weight"), stop - start
        spread = self.spread()[start:stop].double()  # thousands of equal tokens may all round alike in single precision
        places = self.activation[start:stop] + len(weight) * torch.arange(count, device=weight.device).unsqueeze(1)
        tables = torch.zeros(count * len(weight), weight.shape[1], dtype=spread.dtype, device=weight.device)
        return tables.index_add_(0, places.reshape(-1), spread.flatten(0, 1)).view(count, *weight.shape)

    def drop(self, unusable: Tensor) -> None:
        super().drop(unusable)
        self.factors = None if self.factors is None else blank(self.factors, unusable)
        if self._groups is not None:
            self._sums = blank(self._sums, unusable[self._groups.examples])

    def spread(self) -> Tensor:
        """The gradient of every token: (batch, tokens, features)."""
        return self.gradient if self.factors is None else self.gradient.unsqueeze(1) * self.factors.unsqueeze(2)

    def _same_everywhere(self) -> bool:
        """Whether all positions of each example have the same gradient."""
        if self.gradient.shape[1] < 2:
            return False
        first = self.gradient[:, :1]
        if not torch.equal(first, self.gradient[:, -1:]):
            return False
        return (
            alike(self.gradient) if self._on_processor else torch.equal(self.gradient, first.expand_as(self.gradient))
        )

    def _without(self, padding: int) -> None:
        """Zero the gradients of padding tokens."""
        counted = self.activation != padding
        if self.factors is not None:
            self.factors = self.factors * counted
            self.gradient = torch.where(counted.any(1, keepdim=True), self.gradient, 0.0)
        else:
            self.gradient = torch.where(counted.unsqueeze(2), self.gradient, 0.0)


@rule(nn.EmbeddingBag)
class EmbeddingBagRule(EmbeddingRule):
    """One bag of tokens per example: sums (weighted or not) and means."""

    takes_positions = False

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        Rule.__init__(self, module, trained, args, kwargs, gradients)
        assert isinstance(module, nn.EmbeddingBag)
        given = dict(zip(("input", "offsets", "per_sample_weights"), args, strict=False)) | dict(kwargs)
        if module.max_norm is not None:
            raise refuse(module, "with max_norm changes its weight in the forward pass; set max_norm=None")
        if given.get("offsets") is not None or self.activation.dim() != 2:
            raise refuse(module, "with offsets has no axis of examples; give tokens of shape (batch, length)")
        self.activation = checked_tokens(self.activation, module.num_embeddings)
        factors = given.get("per_sample_weights")
        self.factors = torch.ones_like(self.activation, dtype=self.gradient.dtype) if factors is None else wide(factors)
        if module.padding_idx is not None:
            self._without(module.padding_idx)
        if module.mode == "mean":
            counted = (
                torch.ones_like(self.activation)
                if module.padding_idx is None
                else self.activation != module.padding_idx
            )
            self.factors = self.factors / counted.sum(1, keepdim=True).clamp(min=1)

    @classmethod
    def covers(cls, module: nn.Module) -> bool:
        return super().covers(module) and getattr(module, "mode", "") in ("sum", "mean")
