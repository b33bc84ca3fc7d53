"""Models of transformers for steps.py, with random weights, on rows of tokens. Needs discreet[hf]."""

from __future__ import annotations

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, GPT2Config, RobertaConfig

from discreet.language import Layout, TransformersModel

WORDS, LENGTH, FEATURES, LAYERS = 10_000, 256, 256, 6


class Copied(Layout):
    """Fields that are copied out of the rows, since Opacus cannot take them as views."""

    def apart(self, rows: Tensor) -> dict[str, Tensor]:
        return {name: field.contiguous() for name, field in Layout.apart(self, rows).items()}


def problem(name: str, batch: int, generator: torch.Generator) -> tuple[nn.Module, Tensor, Tensor]:
    """Model, inputs and targets: a GPT-2 with a tied table that predicts the next token, or a RoBERTa of two classes;
    with LoRA of rank 8 on its attention."""
    rows, kind = batch, name.partition("-")[0]
    if kind == "gpt2":
        sizes = GPT2Config(n_embd=FEATURES, n_layer=LAYERS, n_head=8, n_positions=LENGTH, vocab_size=WORDS)
        inner, attention, task = AutoModelForCausalLM.from_config(sizes), ["c_attn"], "causal-lm"
    else:
        sizes = RobertaConfig(
            hidden_size=FEATURES,
            num_hidden_layers=LAYERS,
            num_attention_heads=8,
            intermediate_size=4 * FEATURES,
            max_position_embeddings=LENGTH + 2,
            vocab_size=WORDS,
        )
        inner, attention, task = (
            AutoModelForSequenceClassification.from_config(sizes),
            ["query", "value"],
            "classification",
        )
    for module in inner.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if name.endswith("-lora"):
        inner = get_peft_model(inner, LoraConfig(r=8, target_modules=attention, fan_in_fan_out=kind == "gpt2"))
    tokens = torch.randint(3, WORDS, (rows, LENGTH), generator=generator)
    inputs = torch.stack([tokens, torch.ones_like(tokens)], 1)
    targets = tokens.roll(-1, 1) if kind == "gpt2" else torch.randint(2, (rows,), generator=generator)
    layout = Copied(("input_ids", "attention_mask"))
    return TransformersModel(inner, task, layout).train(), inputs, targets
