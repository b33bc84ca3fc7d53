"""Multi-head attention: four linear maps; running the attention again gives their inputs and gradients."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping.rules.base import Rule, refuse, rule
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.numbers import norms_of, wide

_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)
_SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")

Pieces = dict[str, list[tuple[LinearRule, str]]]
"""By parameter: the linear maps of its rows, from top to bottom, and whether it is their "weight" or "bias"."""


@rule(nn.MultiheadAttention)
class AttentionRule(Rule):
    """Attention with masks, dropout (replayed with the same random numbers), and weights returned or not."""

    names = ()
    replays = True

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained = module, trained
        given = _SIGNATURE.bind(module, *args, **kwargs)
        given.apply_defaults()
        self._given: dict[str, Any] = given.arguments
        self._outer = gradients[0], (gradients[1] if len(gradients) > 1 else None)
        self._pieces: Pieces | None = None
        if self._given["query"].dim() != 3:
            raise refuse(module, "got a query without an axis of examples")

    @classmethod
    def covers(cls, module: nn.Module) -> bool:
        assert isinstance(module, nn.MultiheadAttention)
        return module.bias_k is None and not module.add_zero_attn

    @classmethod
    def axis(cls, module: nn.Module) -> int:
        assert isinstance(module, nn.MultiheadAttention)
        return 0 if module.batch_first else 1

    @property
    def examples(self) -> int:
        size: int = self._given["query"].shape[self.axis(self.module)]
        return size

    def squares(self, name: str) -> Tensor:
        parts = [one.squares(kind) for one, kind in self._linear(name)]
        return torch.stack(parts).sum(0)

    def lengths(self, name: str) -> Tensor:
        parts = [one.lengths(kind) for one, kind in self._linear(name)]
        return norms_of(torch.stack(parts), 0)

    def terms(self, name: str) -> int | Tensor:
        return max(one.terms(kind) for one, kind in self._linear(name))

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        maps = self._linear(name)
        parts = [one.scaled_lengths(kind, own) for (one, kind), own in zip(maps, scale.chunk(len(maps)), strict=True)]
        return norms_of(torch.stack(parts), 0)

    def total(self, name: str, weights: Tensor) -> Tensor:
        return torch.cat([one.total(kind, weights) for one, kind in self._linear(name)])

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        return torch.cat([one.rows(kind, start, stop) for one, kind in self._linear(name)], 1)

    def forget(self) -> None:
        if self._pieces is not None:
            self._given, self._outer = {}, (None, None)

    def drop(self, unusable: Tensor) -> None:
        assert self._pieces is not None
        for one in {id(one): one for pieces in self._pieces.values() for one, _ in pieces}.values():
            one.drop(unusable)

    def _linear(self, name: str) -> list[tuple[LinearRule, str]]:
        if self._pieces is None:
            devices = [self.generator.device] if self.generator is not None and self.generator.is_cuda else []
            with torch.enable_grad(), torch.random.fork_rng(devices):
                if self.generator is not None:
                    self._rewind(self.generator)
                self._pieces = self._run_again()
        return self._pieces[name]

    def _rewind(self, state: Tensor) -> None:
        device = next(self.module.parameters()).device
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.set_rng_state(state)

    def _first(self, tensor: Tensor) -> Tensor:
        """The tensor with the examples along axis 0."""
        return wide(tensor.transpose(0, self.axis(self.module)))

    def _run_again(self) -> Pieces:
        """Run the attention from projections that are leaves of the graph, to get the gradients of the projections."""
        module: Any = self.module
        inputs = [self._first(self._given[key]) for key in ("query", "key", "value")]
        if module._qkv_same_embed_dim:
            weights = module.in_proj_weight.detach().chunk(3)
        else:
            weights = [module.get_parameter(name).detach() for name in _SEPARATE]
        biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.detach().chunk(3)
        projected = [
            F.linear(x, wide(weight), None if bias is None else wide(bias)).requires_grad_()
            for x, weight, bias in zip(inputs, weights, biases, strict=True)
        ]
        mixed, shown = self._attend(*projected)
        out, seen = self._outer
        pairs = [] if out is None else [(mixed, self._first(out) @ wide(module.out_proj.weight))]
        pairs += [] if seen is None else [(shown, wide(seen).view_as(shown))]
        grads = torch.autograd.grad(
            [output for output, _ in pairs], projected, [gradient for _, gradient in pairs], allow_unused=True
        )
        pulled = [torch.zeros_like(x) if grad is None else grad for x, grad in zip(projected, grads, strict=True)]
        maps = [LinearRule.of(module, x, gradient) for x, gradient in zip(inputs, pulled, strict=True)]
        last = torch.zeros_like(mixed) if out is None else self._first(out)
        final = LinearRule.of(module, mixed, last)
        return {
            "in_proj_weight": [(one, "weight") for one in maps],
            "in_proj_bias": [(one, "bias") for one in maps],
            "out_proj.weight": [(final, "weight")],
            "out_proj.bias": [(final, "bias")],
            **{name: [(one, "weight")] for name, one in zip(_SEPARATE, maps, strict=True)},
        }

    def _attend(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The input of the last projection, and the weights that are returned. The operations, and so the random
        numbers, are those of torch."""
        module: Any = self.module
        given, heads = self._given, module.num_heads
        count, length, features = query.shape
        q, k, v = (x.reshape(count, x.shape[1], heads, -1).transpose(1, 2) for x in (query, key, value))
        dropout = module.dropout if module.training else 0.0
        alone = given["is_causal"] and given["key_padding_mask"] is None and not given["need_weights"]
        mask = None if alone else self._mask(query.dtype)
        if not given["need_weights"]:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=alone)
            return mixed.transpose(1, 2).reshape(count, length, features), mixed
        scores = q @ k.transpose(2, 3) / math.sqrt(features // heads)
        weights = torch.softmax(scores if mask is None else scores + mask, -1).flatten(0, 1)
        weights = F.dropout(weights, dropout) if dropout > 0.0 else weights
        shown = weights.view(count, heads, length, -1)
        mixed = (shown @ v).transpose(1, 2).reshape(count, length, features)
        return mixed, shown.mean(1) if given["average_attn_weights"] else shown

    def _mask(self, dtype: torch.dtype) -> Tensor | None:
        """Both masks combined into one to add to the scores; its first axis holds the examples or has length 1."""
        module: Any = self.module
        found: Tensor | None = None
        mask, padding = self._given["attn_mask"], self._given["key_padding_mask"]
        if mask is not None:
            found = _additive(mask, dtype)
            found = found.view(-1, module.num_heads, *found.shape[1:]) if found.dim() == 3 else found[None, None]
        if padding is not None:
            hidden = _additive(padding, dtype)[:, None, None]
            found = hidden if found is None else found + hidden
        return found


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.detach().to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
