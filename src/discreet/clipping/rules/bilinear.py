"""Bilinear layers, which are linear in the products of the features of two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from discreet.clipping.rules.base import rule
from discreet.clipping.rules.inner_linear import LinearParts, Part
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.numbers import wide


@rule(nn.Bilinear)
class BilinearRule(LinearParts):
    """y_k = x W_k z + b_k is a linear layer whose input is the outer product of x and z, at each position."""

    names = ("weight", "bias")

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained = module, trained
        given = dict(zip(("input1", "input2"), args, strict=False)) | dict(kwargs)
        self._given = wide(given["input1"]), wide(given["input2"])
        assert gradients[0] is not None
        self._gradient = wide(gradients[0])

    def find(self) -> dict[str, Part]:
        one, other = self._given
        products = (one.unsqueeze(-1) * other.unsqueeze(-2)).flatten(-2)
        inside = LinearRule.of(self.module, products, self._gradient)
        return {"weight": (inside, "weight"), "bias": (inside, "bias")}
