"""A folder with a tiny model of transformers and a tokenizer made of public text, as save_pretrained writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")

PUBLIC = ["a film about dogs was lovely and moving", "a film about cats was dull and boring", "the third part"]

BUDGET = ["--epsilon", "8", "--delta", "1e-3", "--population", "60"]
FEW = ["--set", "steps=2", "--set", "batch=20", "--set", "engine=bookkeeping", "--length", "8"]
"""Options of a run of two steps."""


def model_folder(folder: Path, auto: str = "AutoModelForCausalLM", seed: int = 0, also: str = "") -> Path:
    """A Llama of one layer whose words are those of `PUBLIC` and of `also`; each digit is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    tokenizer.train_from_iterator(
        [*PUBLIC, also], trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]", "[END]"])
    )
    whole = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", eos_token="[END]"
    )
    whole.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(whole),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
    )
    getattr(transformers, auto).from_config(config).save_pretrained(folder)
    return folder
