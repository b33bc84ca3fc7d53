"""The attention rule with masks, weights and dropout."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules.attention import AttentionRule

ROWS, LENGTH, FEATURES, HEADS = 3, 4, 6, 2


class Masked(nn.Module):
    """Self-attention or attention to other features, with masks that go with the example."""

    def __init__(self, masks: str, *, need_weights: bool, average: bool, first: bool, other: int | None) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(FEATURES, HEADS, batch_first=first, kdim=other, vdim=other)
        self.mix = nn.Linear(FEATURES, other or FEATURES)
        self.masks, self.other, self.first = masks, other, first
        self.options: dict[str, Any] = {"need_weights": need_weights, "average_attn_weights": average}

    def forward(self, x: Tensor) -> Tensor:
        memory = self.mix(x) if self.other else x
        options = dict(self.options)
        if "mask" in self.masks:
            options["attn_mask"] = torch.triu(torch.ones(LENGTH, LENGTH), 1).bool()
            options["is_causal"] = "causal" in self.masks
        if "float" in self.masks:
            options["attn_mask"] = torch.linspace(-1, 1, LENGTH**2, dtype=x.dtype).view(LENGTH, LENGTH)
        if "heads" in self.masks:
            options["attn_mask"] = x.detach().sum((1, 2)).repeat_interleave(HEADS)[:, None, None].expand(-1, 4, 4)
        if "padding" in self.masks:
            options["key_padding_mask"] = x.detach()[:, :, 0] > 0.8
        parts = [part if self.first else part.transpose(0, 1) for part in (x, memory, memory)]
        out, weights = self.attention(*parts, **options)
        out = out if self.first else out.transpose(0, 1)
        return out.flatten(1).sum(1) + (0 if weights is None else torch.sin(3 * weights.flatten(1)).sum(1))


MASKS = ["", "mask", "causal mask", "float", "heads", "padding", "mask padding", "float padding"]
LAYOUTS = list(itertools.product([True, False], [True, False], [None, 5]))


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize(("first", "need_weights", "other"), LAYOUTS)
@pytest.mark.parametrize("masks", MASKS)
def test_attention_agrees_with_the_reference(masks: str, first: bool, need_weights: bool, other: int | None) -> None:
    torch.manual_seed(0)
    average = len(masks) % 2 == 0
    model = Masked(masks, need_weights=need_weights, average=average, first=first, other=other).double()
    inputs, targets = torch.randn(ROWS, LENGTH, FEATURES, dtype=torch.float64), torch.zeros(ROWS)
    sums = [
        ENGINES[name].clipped_sum(model, lambda output, _: output.sum(), Chunk(inputs, targets), Clip(0.5, 2.0**-30))
        for name in ("bookkeeping", "reference")
    ]
    for key in sums[1]:
        torch.testing.assert_close(sums[0][key], sums[1][key], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_is_replayed(need_weights: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into the last projection is, to the bit pattern of zeros, what it was in the model's own pass."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(FEATURES, HEADS, dropout=0.5, batch_first=True).double()
    returned: list[Tensor] = []
    attention.register_forward_hook(lambda module, args, output: returned.append(output[0].detach()))
    replayed: list[Tensor] = []
    real = AttentionRule._attend

    def attend(self: AttentionRule, *projected: Tensor) -> tuple[Tensor, Tensor]:
        mixed, shown = real(self, *projected)
        replayed.append(attention.out_proj(mixed).detach())
        return mixed, shown

    monkeypatch.setattr(AttentionRule, "_attend", attend)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x, need_weights=need_weights)[0]

    inputs = torch.randn(ROWS, LENGTH, FEATURES, dtype=torch.float64)
    before = torch.get_rng_state()
    ENGINES["bookkeeping"].clipped_sum(
        Model(), lambda output, _: output.sum(), Chunk(inputs, torch.zeros(ROWS)), Clip(0.5, 2.0**-30)
    )
    torch.testing.assert_close(replayed[0], returned[0], rtol=1e-12, atol=1e-12)
    assert not torch.equal(torch.get_rng_state(), before)


def test_a_transformer_with_dropout_is_trained_by_book_keeping() -> None:
    layer = nn.TransformerEncoderLayer(FEATURES, HEADS, 8, dropout=0.1, batch_first=True)
    sums = ENGINES["bookkeeping"].clipped_sum(
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        lambda output, _: output.square().sum() * 1e6,
        Chunk(torch.randn(1, LENGTH, FEATURES), torch.zeros(1)),
        Clip(0.5, 2.0**-30),
    )
    assert sum(float(part.square().sum()) for part in sums.values()) ** 0.5 == pytest.approx(0.5, rel=1e-5)
