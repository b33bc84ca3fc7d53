"""`Conv1D` of transformers (GPT-2): a linear layer whose weight lies the other way round."""

from __future__ import annotations

from typing import Any

from discreet.clipping.rules import RULES
from discreet.clipping.rules.inner_linear import LinearParts, Part
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.products.half import factors
from discreet.core.imports.extras import extra


class Conv1DRule(LinearParts):
    """output = input weight + bias, weight (inputs, outputs): an example's gradient is the sum over positions of outer
    products a_t g_t^T, that of a linear layer which was given the gradients and whose outputs have the inputs as
    gradients."""

    names = ("weight", "bias")
    kept = staticmethod(factors)

    def find(self) -> dict[str, Part]:
        turned = LinearRule.of(self.module, self.gradient, self.activation)
        straight = LinearRule.of(self.module, self.activation, self.gradient)
        return {"weight": (turned, "weight"), "bias": (straight, "bias")}


def register_conv1d() -> None:
    """Let engines use the rule. Called when the first model of transformers is wrapped."""
    module: Any = extra("transformers.pytorch_utils", "hf", "a model of transformers")
    RULES.setdefault(module.Conv1D, Conv1DRule)
