"""Pretrains a small masked and a small causal model of transformers on the half of IMDb's reviews declared public.

python benchmarks/language_pretraining.py masked --data DIR --out models                               (resumable)
python benchmarks/language_pretraining.py causal --data DIR --out models --layers 6 --features 256 --length 128

Labels are not used. Which half a review is in is a hash of its text, so copies lie on one side. models/masked and
models/causal are what `from_pretrained` loads, with a tokenizer made of the public half alone. Needs discreet[hf].

Vectors of words are not learned from nothing: they begin as those of a count of the words that are in the same reviews.
The masked model also learns to tell, from the mean of a window, which words its review has elsewhere. Without these,
what is learned in minutes is grammar, which says hardly anything of the sentiment of a review.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn import functional as F
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
)

from discreet.data.sets.imdb import reviews

WORDS, HEADS = 6000, 4
BATCH, RATE, MASKED, SAVE_EVERY = 32, 1e-3, 0.3, 200
PAD, CLS, SEP, MASK = 0, 2, 3, 4
SEEN, SCALE = 5, 0.05
"""Reviews that two words must share to count, and the root mean square of the first word vectors."""
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True)
class Size:
    """Of a model: its layers, the width of a token, the tokens of a row."""

    layers: int
    features: int
    length: int


def clean(text: str) -> str:
    """A review without its line breaks."""
    return text.replace("<br />", " ")


def is_public(text: str) -> bool:
    """Whether a review of the training part is in the half declared public."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


def public_texts(data: Path) -> list[str]:
    """The texts of the public half, without labels, each once."""
    return sorted({clean(text) for _, _, text in reviews(data, "train") if is_public(text)})


def make_tokenizer(texts: list[str], length: int) -> PreTrainedTokenizerFast:
    """Word pieces in lower case."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=WORDS, special_tokens=list(SPECIAL.values())))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="[SEP]", model_max_length=length, **SPECIAL)


def make_model(kind: str, size: Size) -> Any:
    """The model with random weights."""
    torch.manual_seed(0)
    if kind == "masked":
        sizes = ModernBertConfig(
            vocab_size=WORDS,
            hidden_size=size.features,
            intermediate_size=2 * size.features,
            num_hidden_layers=size.layers,
            num_attention_heads=HEADS,
            max_position_embeddings=size.length,
            global_attn_every_n_layers=1,
            classifier_pooling="mean",
            sparse_prediction=True,
            pad_token_id=0,
            cls_token_id=2,
            bos_token_id=2,
            sep_token_id=3,
            eos_token_id=3,
        )
        return ModernBertForMaskedLM(sizes)
    sizes = GPT2Config(
        vocab_size=WORDS, n_embd=size.features, n_layer=size.layers, n_head=HEADS, n_positions=size.length,
        bos_token_id=2, eos_token_id=3, pad_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(sizes)


class Reviews:
    """The word pieces of all reviews, one after another with [SEP] between them, and windows into them."""

    def __init__(self, pieces: list[list[int]]) -> None:
        self.pieces = pieces
        self.stream = np.concatenate([np.array([*one, SEP], np.int64) for one in pieces])
        self.ends = np.cumsum([len(one) + 1 for one in pieces])

    def windows(self, draws: np.random.Generator, length: int) -> tuple[torch.Tensor, np.ndarray]:
        """(BATCH, length): [CLS] and pieces of one review each, filled up where it is shorter; and which reviews."""
        starts = draws.integers(0, len(self.stream), BATCH)
        chosen = np.searchsorted(self.ends, starts, side="right")
        rows = torch.full((BATCH, length), PAD)
        for row, start, review in zip(rows, starts, chosen, strict=True):
            begin = max(self.ends[review] - len(self.pieces[review]) - 1, min(start, self.ends[review] - length + 1))
            found = torch.from_numpy(self.stream[begin : min(begin + length - 1, self.ends[review])])
            row[0], row[1 : len(found) + 1] = CLS, found
        return rows, chosen


def word_vectors(pieces: list[list[int]], features: int) -> torch.Tensor:
    """(WORDS, features): by how much more often than by chance two word pieces are in one review, the logarithm of it
    where it is positive, and of that the first singular vectors, each times the root of its value (Levy and Goldberg
    2014)."""
    distinct = [np.unique(one) for one in pieces]
    places = np.repeat(np.arange(len(pieces)), [len(one) for one in distinct])
    present = csr_matrix((np.ones(len(places), np.float32), (places, np.concatenate(distinct))), (len(pieces), WORDS))
    together = (present.T @ present).toarray().astype(np.float64)
    np.fill_diagonal(together, 0)
    each = together.sum(1) + 1
    chance = np.outer(each, each) / together.sum()
    more = np.where(together >= SEEN, np.log(np.maximum(together, 1) / chance), 0).clip(min=0)
    torch.manual_seed(0)
    vectors, values, _ = torch.svd_lowrank(torch.from_numpy(more).float(), features, niter=4)
    found = vectors * values.sqrt()
    common = found[torch.from_numpy(more.any(1))]
    return found * (SCALE / common.square().mean().sqrt())


def loss_of(kind: str, model: Any, reviews: Reviews, step: int, length: int) -> torch.Tensor:
    """The loss of the windows of one step, which its number alone decides."""
    draws = np.random.default_rng([7, step])
    windows, chosen = reviews.windows(draws, length)
    attended = (windows != PAD).long()
    if kind == "causal":
        logits = model(input_ids=windows, attention_mask=attended, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.float().reshape(-1, WORDS), windows[:, 1:].reshape(-1), ignore_index=PAD)
    hidden_there = torch.from_numpy(draws.random(windows.shape) < MASKED) & (windows > MASK)
    shown = windows.masked_fill(hidden_there & torch.from_numpy(draws.random(windows.shape) < 0.9), MASK)
    hidden = model.model(input_ids=shown, attention_mask=attended).last_hidden_state
    words = F.cross_entropy(model.decoder(model.head(hidden[hidden_there])).float(), windows[hidden_there])
    mean = (hidden * attended.unsqueeze(2)).sum(1) / attended.sum(1, keepdim=True)  # as the classifier's
    others = torch.zeros(BATCH, WORDS)
    for row, review in zip(others, chosen, strict=True):
        row[reviews.pieces[review]] = 1.0
    others = others.scatter(1, shown, 0.0)
    scores = model.decoder(model.head(mean)).float().log_softmax(1)
    return words - (scores * others).sum() / others.sum()


def rate(step: int, steps: int) -> float:
    """The learning rate: a warm-up over 5 % of the steps, then half a cosine."""
    warm = max(1, steps // 20)
    return RATE * min((step + 1) / warm, 0.5 * (1 + math.cos(math.pi * step / steps)))


def pretrain(kind: str, data: Path, out: Path, steps: int, size: Size) -> None:
    """Take the steps that are left, and write the folder."""
    out.mkdir(parents=True, exist_ok=True)
    texts, begun = public_texts(data), time.process_time()
    tokenizer = make_tokenizer(texts, size.length)
    pieces = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    found = Reviews(pieces)
    model = make_model(kind, size).train()
    with torch.no_grad():
        known = len(SPECIAL)
        model.get_input_embeddings().weight[known:] = word_vectors(pieces, size.features)[known:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98))
    kept, first, spent, means = out / f"{kind}.checkpoint", 0, 0.0, []
    if kept.exists():
        state = torch.load(kept)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, spent = state["step"], state["seconds"]
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(kind, model, found, step, size.length)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        means.append(loss.item())
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == steps:
            seconds = spent + time.process_time() - begun
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"step": step + 1, "seconds": seconds}, kept.with_suffix(".new"))
            kept.with_suffix(".new").rename(kept)
            print(f"{kind} step {step + 1}: loss {np.mean(means[-SAVE_EVERY:]):.3f}, {seconds:.0f} s", flush=True)
    model.save_pretrained(out / kind)
    tokenizer.save_pretrained(out / kind)
    facts = {
        "kind": kind,
        **asdict(size),
        "parameters": sum(one.numel() for one in model.parameters()),
        "public texts": len(texts),
        "public tokens": len(found.stream),
        "steps": steps,
        "tokens seen": steps * BATCH * size.length,
        "loss at the end": round(float(np.mean(means[-SAVE_EVERY:])), 3) if means else None,
        "CPU seconds": round(spent + time.process_time() - begun),
    }
    (out / kind / "pretraining.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["masked", "causal"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    for name, value in asdict(Size(layers=2, features=128, length=128)).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pretrain(
        options.kind, options.data, options.out, options.steps, Size(options.layers, options.features, options.length)
    )
