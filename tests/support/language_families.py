"""Families of language models from random tiny configurations, with rows for what each is made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.language import TASKS, Task, TransformersModel, TransformersRows

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")

WORDS, LENGTH = 32, 6
_TOKENS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WIDE = {"hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 16, "max_position_embeddings": 20} | _TOKENS
_DECODER = _WIDE | {"num_attention_heads": 4, "num_key_value_heads": 2}
_HEADS = _WIDE | {"num_attention_heads": 2}
_SMALL_HEADS = _DECODER | {"head_dim": 4}
_RELATIVE = _HEADS | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16} | _TOKENS
_BLOOM = {"hidden_size": 16, "n_layer": 2, "n_head": 2} | _TOKENS
_NEO = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
_OPT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 16, "word_embed_proj_dim": 16}
_DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 16} | _TOKENS
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
_BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
_BART_HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_start_token_id": 2}
_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


@dataclass(frozen=True)
class Family:
    """A family by the name that people know, its configuration, and what it is made for."""

    name: str
    config: str
    task: str
    sizes: dict[str, Any]


FAMILIES = {
    family.name: family
    for family in (
        Family("GPT-2", "GPT2Config", "causal-lm", _GPT2),
        Family("GPT-Neo", "GPTNeoConfig", "causal-lm", _NEO | _TOKENS | {"max_position_embeddings": 16}),
        Family("GPT-NeoX, Pythia", "GPTNeoXConfig", "causal-lm", _HEADS),
        Family("OPT", "OPTConfig", "causal-lm", _OPT | _TOKENS | {"max_position_embeddings": 16}),
        Family("BLOOM", "BloomConfig", "causal-lm", _BLOOM),
        Family("Falcon", "FalconConfig", "causal-lm", {k: v for k, v in _HEADS.items() if k != "intermediate_size"}),
        Family("Llama", "LlamaConfig", "causal-lm", _DECODER),
        Family("Mistral", "MistralConfig", "causal-lm", _DECODER),
        Family("Mixtral", "MixtralConfig", "causal-lm", _DECODER | {"num_local_experts": 2, "num_experts_per_tok": 1}),
        Family("Qwen2", "Qwen2Config", "causal-lm", _DECODER),
        Family("Qwen3", "Qwen3Config", "causal-lm", _SMALL_HEADS),
        Family("Gemma", "GemmaConfig", "causal-lm", _SMALL_HEADS),
        Family("Gemma 3", "Gemma3TextConfig", "causal-lm", _SMALL_HEADS),
        Family("Phi", "PhiConfig", "causal-lm", _HEADS),
        Family("Phi-3", "Phi3Config", "causal-lm", _DECODER),
        Family("OLMo 2", "Olmo2Config", "causal-lm", _DECODER),
        Family("SmolLM3", "SmolLM3Config", "causal-lm", _DECODER),
        Family("Granite", "GraniteConfig", "causal-lm", _DECODER),
        Family("BERT", "BertConfig", "masked-lm", _HEADS),
        Family("RoBERTa", "RobertaConfig", "masked-lm", _HEADS),
        Family("DistilBERT", "DistilBertConfig", "masked-lm", _DISTIL),
        Family("ELECTRA", "ElectraConfig", "masked-lm", _HEADS | {"embedding_size": 16}),
        Family("DeBERTa-v2, v3", "DebertaV2Config", "masked-lm", _RELATIVE | {"position_buckets": 8}),
        Family("ModernBERT", "ModernBertConfig", "masked-lm", _HEADS | {"cls_token_id": 1, "sep_token_id": 2}),
        Family("T5", "T5Config", "seq2seq", _T5 | {"vocab_size": WORDS, "pad_token_id": 0, "eos_token_id": 1}),
        Family("BART", "BartConfig", "seq2seq", _BART | _BART_HEADS | _TOKENS | {"max_position_embeddings": 16}),
        Family("ViT", "ViTConfig", "image-classification", _VIT | {"image_size": 8, "patch_size": 4}),
    )
}


def inner_model(name: str, task: str | None = None, **changes: Any) -> Any:
    """A model of the family with random weights, without dropout."""
    family = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, family.config)(**family.sizes | changes)
    made = getattr(transformers, TASKS[task or family.task].auto).from_config(config)
    for module in made.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return made


def with_lora(inner: Any, task: Task, **changes: Any) -> Any:
    """Adapters of rank 2 on all linear layers, with random second factors (they begin at zero)."""
    peft = pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
    wanted = {"r": 2, "target_modules": "all-linear", "exclude_modules": ["classifier", "score"]} | changes
    model = peft.get_peft_model(inner, peft.LoraConfig(task_type=task.peft, **wanted))
    with torch.no_grad():
        for part, parameter in model.named_parameters():
            if "lora_B" in part:
                parameter.copy_(torch.randn_like(parameter) / 4)
    return model


def field_rows(task: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows for a task: a third padded, some labels ignored."""
    generator = torch.Generator().manual_seed(seed)
    if task == "image-classification":
        images = torch.randn(count, 3, 8, 8, generator=generator)
        return [{"pixel_values": image, "labels": i % 2} for i, image in enumerate(images)]
    tokens = torch.randint(3, WORDS, (count, LENGTH), generator=generator)
    mask = torch.ones_like(tokens)
    mask[::3, LENGTH - 2 :] = 0
    rows: list[dict[str, Any]] = [
        {"input_ids": (one * kept).tolist(), "attention_mask": kept.tolist()}
        for one, kept in zip(tokens, mask, strict=True)
    ]
    labels = torch.randint(3, WORDS, (count, LENGTH), generator=generator)
    labels[:, 0], labels[1::3, -1] = -100, -100
    for i, row in enumerate(rows):
        match task:
            case "causal-lm":
                pass  # its own tokens
            case "token-classification":
                row["labels"] = [-100 if one < 0 else one % 2 for one in labels[i].tolist()]
            case "classification":
                row["labels"] = i % 2
            case "regression":
                row["labels"] = float(i) / count
            case "multi-label":
                row["labels"] = [float(i % 2), float(i % 3 == 0)]
            case "seq2seq":
                row["labels"] = labels[i, :4].tolist()
            case _:
                row["labels"] = labels[i].tolist()
    return rows


def rows_for(task: str, count: int, seed: int = 0) -> TransformersRows:
    """The same as a data set."""
    return TransformersRows(field_rows(task, count, seed), task, decoder_start=0)


def stacked(rows: TransformersRows) -> tuple[Tensor, Tensor]:
    """All rows as two tensors."""
    pairs = [rows[i] for i in range(len(rows))]
    return torch.stack([one for one, _ in pairs]), torch.stack([other for _, other in pairs])


def on_rows(inner: Any, task: str) -> TransformersModel:
    """The model on rows of the task."""
    return TransformersModel(inner, task, rows_for(task, 1).layout)
