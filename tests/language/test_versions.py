"""What the extra hf asks for is what is tested, and what masks rest on in it is there."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from language_families import LENGTH, inner_model, transformers

from discreet.language.row_masks import masks_for_all

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_installed_versions_are_those_of_the_extra() -> None:
    """With a bound above each: what `transformers` makes of a batch has changed between its major versions."""
    requirement = pytest.importorskip("packaging.requirements", reason="packaging comes with transformers").Requirement
    asked = [requirement(one) for one in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["hf"]]
    assert [one.name for one in asked] == ["transformers", "accelerate", "peft"]
    for one in asked:
        assert one.specifier.contains(version(one.name)), one
        assert not one.specifier.contains("1000"), f"{one.name} has no bound above"


@pytest.mark.parametrize("family", ["Llama", "GPT-2", "BERT"])
def test_a_batch_without_padding_gets_a_mask_too(family: str) -> None:
    """By itself transformers leaves it out, so that the program for a row would depend on the others."""
    model, found = inner_model(family, "causal-lm" if family != "BERT" else "masked-lm").eval(), []
    attention = [
        module for name, module in model.named_modules() if name.split(".")[-1] in ("self_attn", "attn", "self")
    ]

    def look(module: Any, given: Any, named: Any) -> None:
        tensors = [one for one in (*named.values(), *given) if isinstance(one, torch.Tensor) and one.dim() == 4]
        found.append(any(one.shape[1] == 1 and one.shape[-1] == LENGTH for one in tensors))

    for module in attention:
        module.register_forward_pre_hook(look, with_kwargs=True)
    tokens = torch.full((2, LENGTH), 3)
    for inside, wanted in ((True, True), (False, False)):
        found.clear()
        if inside:
            with masks_for_all():
                model(tokens, attention_mask=torch.ones_like(tokens))
        else:
            model(tokens, attention_mask=torch.ones_like(tokens))
        assert found
        assert all(one is wanted for one in found), (transformers.__version__, family, inside)
