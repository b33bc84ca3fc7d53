"""The rule for the Conv1D of GPT-2 passes the battery that every layer rule passes."""

from __future__ import annotations

import pytest
import torch
from language_families import inner_model, transformers
from torch import nn

from discreet.clipping import check_rule
from discreet.clipping.capture.owners import rule_of
from discreet.clipping.rules.linear import LinearRule
from discreet.language import TransformersModel
from discreet.language.conv1d_rule import Conv1DRule, register_conv1d


def layers(first: int, second: int) -> nn.Sequential:
    register_conv1d()
    kind = transformers.pytorch_utils.Conv1D
    return nn.Sequential(kind(first, 5), nn.Tanh(), kind(second, first))


@pytest.mark.parametrize("length", [1, 3, 80])
@pytest.mark.parametrize("features", [2, 7])
def test_it_passes_the_battery(length: int, features: int) -> None:
    torch.manual_seed(0)
    check_rule(layers(features, 9 - features), torch.randn(6, length, 5))


def test_a_weight_that_is_not_turned_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Conv1DRule) -> object:
        both = LinearRule.of(self.module, self.activation, self.gradient)
        return {"weight": (both, "weight"), "bias": (both, "bias")}

    monkeypatch.setattr(Conv1DRule, "find", wrong)
    with pytest.raises((AssertionError, RuntimeError)):
        check_rule(layers(5, 5), torch.randn(6, 3, 5))


def test_models_of_transformers_have_it() -> None:
    model = TransformersModel(inner_model("GPT-2"), "causal-lm")
    assert rule_of(model.inner.transformer.h[0].attn.c_attn) is Conv1DRule
