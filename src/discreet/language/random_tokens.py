"""Random rows of tokens as a model of `transformers` is meant to have them, to try it on before a run.

They share nothing with private rows but the shape of one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discreet.language.tasks import base_of
from discreet.language.transformers_rows import Layout


def random_tokens(inner: nn.Module, layout: Layout, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Rows of whole numbers, of the given shape with the rows along axis 0.

    Words are drawn from the whole vocabulary. Every other row is as long as it may be; the others end before, and are
    filled up and not attended to from there on. Fields that are neither words, masks, token types nor positions are
    drawn below the smallest table of the model.
    """
    fields = layout.apart(torch.zeros(shape, dtype=torch.int64))
    base, longest = base_of(inner), shape[-1]
    ends: dict[bool, Tensor] = {}
    found = []
    for name, field in fields.items():
        decoder, length = name.startswith("decoder_"), field.shape[-1]
        if decoder not in ends:
            ends[decoder] = _ends(shape[0], length, generator)
        kept = torch.arange(length) < ends[decoder][:, None]
        made = _field(base, name, kept, generator)
        found.append(torch.cat([made, made.new_zeros(shape[0], longest - length)], 1))
    return found[0] if len(found) == 1 else torch.stack(found, 1)


def _ends(rows: int, length: int, generator: torch.Generator) -> Tensor:
    ends = torch.randint(1, length + 1, (rows,), generator=generator)
    ends[::2] = length
    return ends


def _field(base: Any, name: str, kept: Tensor, generator: torch.Generator) -> Tensor:
    """One field of all rows. `kept`: which tokens are no padding, shape (rows, length)."""
    drawn = torch.randint(0, _below(base, name), kept.shape, generator=generator)
    if name.endswith("attention_mask"):
        return kept.long()
    if name.endswith("position_ids"):
        return torch.arange(kept.shape[1]).expand(kept.shape) * kept
    if name.endswith("input_ids"):
        return drawn.masked_fill(~kept, getattr(base.config, "pad_token_id", None) or 0)
    return drawn * kept


def _below(base: Any, name: str) -> int:
    """How many values a field may have."""
    if name.endswith("input_ids"):
        holder = base.get_decoder() if name.startswith("decoder_") else base
        return int(holder.get_input_embeddings().num_embeddings)
    if name.endswith("token_type_ids"):
        return int(getattr(base.config, "type_vocab_size", None) or 1)
    return min((one.num_embeddings for one in base.modules() if isinstance(one, nn.Embedding)), default=2)
