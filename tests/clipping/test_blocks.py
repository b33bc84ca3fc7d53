"""Blocks of today's models: attention written out, tied languages models, encoders with padding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import tiny_training
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Units

WIDTH, HEADS, WORDS, LENGTH = 8, 2, 7, 5
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


class Block(nn.Module):
    """Causal attention by the function of torch, and two linear layers, with norms in front."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.one(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.two(x))))


class Language(nn.Module):
    """Two blocks between a table and the same table."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.words(tokens) + self.places[: tokens.shape[1]])).transpose(1, 2)


@pytest.mark.parametrize("units", [None, Units((1, 3))], ids=["examples", "units"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_language_model_with_tied_words_agrees(dtype: torch.dtype, units: Units | None) -> None:
    torch.manual_seed(0)
    model = Language().to(dtype)
    tokens = torch.randint(WORDS, (4, LENGTH + 1))
    targets = tokens[:, 1:].clone()
    targets[0, 2:] = -100
    for norm in (0.1, 100.0):
        one, other = (
            ENGINES[name].clipped_sum(
                model, nn.CrossEntropyLoss(), Chunk(tokens[:, :-1], targets, units), Clip(norm, 2.0**-30)
            )
            for name in ("bookkeeping", "reference")
        )
        apart = sum(float((one[key] - other[key]).square().sum()) for key in other) ** 0.5
        assert apart <= TOLERANCE[dtype] * 4 * norm


class Padded(nn.Module):
    """An encoder that is told which positions are padding; in evaluation torch takes its path of nested tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.1, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=True), nn.Linear(WIDTH, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        padding = tokens == 0
        padding = padding & ~padding.all(1, keepdim=True)
        hidden = self.encoder(self.words(tokens), src_key_padding_mask=padding)
        return self.head(hidden.masked_fill(padding.unsqueeze(2), 0.0).sum(1))


class PaddedAndPlaced(Padded):
    """Has dropout beside a parameter that the class holds itself, and uses in a way that has no rule; vmap takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.words(tokens) + (self.places * self.places)
        return self.head(self.encoder(hidden, src_key_padding_mask=tokens == 0).sum(1))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_with_padding_is_trained_by_vmap(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokens, labels = torch.randint(1, WORDS, (24, LENGTH)), torch.arange(24) % 3
    tokens[::2, 3:] = 0
    training = tiny_training(tmp_path, model=PaddedAndPlaced(), data=(tokens, labels))
    assert training.engine.name == "vmap"
    training.run(progress=False)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_with_padding_is_trained_and_evaluated(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokens, labels = torch.randint(1, WORDS, (24, LENGTH)), torch.arange(24) % 3
    tokens[::2, 3:] = 0
    training = tiny_training(
        tmp_path,
        model=Padded(),
        data=(tokens, labels),
        public_test=(tokens[:6].clone(), labels[:6].clone()),
        engine="bookkeeping",
    )
    training.run(evaluate_every=7, progress=False)
    assert 0 <= training.evaluations[-1].metrics["accuracy"] <= 1
