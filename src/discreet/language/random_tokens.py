"""Random rows of tokens as a model of `transformers` is meant to have them, to try it on before a run.

They share nothing with private rows but the shape of one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discreet.language.tasks import base_of
from discreet.language.transformers_rows import Layout


def random_tokens(
    inner: nn.Module, layout: Layout, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor | None:
    """Rows of whole numbers, of the given shape with the rows along axis 0; None if the model does not tell how many
    words it knows.

    Words are drawn from the whole vocabulary. Of four rows two are as long as they may be, one of them of a single
    word; the others end before, and are filled up and not attended to from there on. Other fields than words, masks,
    token types and positions are drawn below the smallest table of the model.
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
        if made is None:
            return None
        found.append(torch.cat([made, made.new_zeros(shape[0], longest - length)], 1))
    return found[0] if len(found) == 1 else torch.stack(found, 1)


def _ends(rows: int, length: int, generator: torch.Generator) -> Tensor:
    ends = torch.randint(1, length + 1, (rows,), generator=generator)
    ends[::2] = length
    return ends


def _field(base: Any, name: str, kept: Tensor, generator: torch.Generator) -> Tensor | None:
    """One field of all rows. `kept`: which tokens are no padding, shape (rows, length)."""
    if name.endswith("attention_mask"):
        return kept.long()
    if name.endswith("position_ids"):
        return torch.arange(kept.shape[1]).expand(kept.shape) * kept
    below = _below(base, name)
    if below is None:
        return None
    drawn = torch.randint(0, below, kept.shape, generator=generator)
    if not name.endswith("input_ids"):
        return drawn * kept
    drawn[2::4] = drawn[2::4, :1]
    padding = getattr(base.config, "pad_token_id", None)
    return drawn.masked_fill(~kept, padding if isinstance(padding, int) and 0 <= padding < below else 0)


def _below(base: Any, name: str) -> int | None:
    """The number of values that a field may take; None if the model does not tell."""
    if name.endswith("input_ids"):
        try:
            table = (base.get_decoder() if name.startswith("decoder_") else base).get_input_embeddings()
        except (AttributeError, NotImplementedError):
            return None
        weight = getattr(table, "weight", None)  # of adapters of `peft`, too
        told = getattr(table, "num_embeddings", len(weight) if isinstance(weight, Tensor) else None)
        return None if told is None else int(told)
    if name.endswith("token_type_ids"):
        return int(getattr(base.config, "type_vocab_size", None) or 1)
    return min((one.num_embeddings for one in base.modules() if isinstance(one, nn.Embedding)), default=2)
