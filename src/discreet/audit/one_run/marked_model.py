"""`MarkedModel`: a model in which every canary has a number of its own, whose gradient nothing else has.

The number of a row is in the last column of its input: 0 for rows that are no canary, k for canary k, and any negative
number for a row whose gradient is zero: the world without a canary, under zero-out. A place is one number, added to the
first output of the row it belongs to. Its value is taken away again, so that the model computes what it would without
places, and learns nothing from them; its gradient stays, `LOUDNESS` times as large as that of the output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.training.preflight.random_rows import rows_of_model

LOUDNESS = 1e4
"""The gradient of a place, in gradients of the first output: a clipped canary is all but this."""

_SCALE = 1024.0
"""Numbers are kept in so many parts, so that the column is of the size of other inputs: unusually large numbers take an
engine's slow way."""

PLACES = "places.weight"
"""The name of the parameter that holds all places."""


class MarkedModel(nn.Module):
    """`model` with `canaries` places. Its inputs are rows from `marked`, of rows of this `shape` and `kind`."""

    def __init__(self, model: nn.Module, shape: torch.Size, kind: torch.dtype, canaries: int) -> None:
        super().__init__()
        self.model, self.shape, self.kind = model, tuple(shape), kind
        self.places = nn.Embedding(canaries + 1, 1, padding_idx=0)
        nn.init.zeros_(self.places.weight)

    def forward(self, rows: Tensor) -> Tensor:
        column, last = rows[:, -1], self.places.num_embeddings - 1
        numbers = (column.nan_to_num(0.0) * _SCALE).round() if rows.is_floating_point() else column
        numbers = numbers.clamp(-last, last).long()  # what is tried before a run may be any number
        own = rows[:, :-1].contiguous()  # in order, as the model's own rows are: the same kernels, the same bits
        output = self.model(own.reshape(len(rows), *self.shape).to(self.kind))
        place = self.places(numbers.clamp(min=0))
        loud = LOUDNESS * (place - place.detach())
        rest = output.shape[1] - 1
        output = output + torch.cat([loud, loud.new_zeros(len(rows), rest)], 1) if rest else output + loud
        return torch.where(numbers[:, None] >= 0, output, output.detach())

    def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor | None:
        """Random rows to try the model on before a run, where rows are whole numbers: the model's own, and numbers of
        canaries. `example`: a row with axis 0."""
        if example.is_floating_point():
            return None
        words = [one.num_embeddings for one in self.model.modules() if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
        own = example[:, :-1].reshape(1, *self.shape).to(self.kind)
        made = rows_of_model(self.model, own, count, generator)
        if made is None:
            made = torch.randint(min(words, default=2), (count, *self.shape), generator=generator)
        return marked(made, torch.randint(self.places.num_embeddings, (count,), generator=generator))


def marked(inputs: Tensor, numbers: Tensor) -> Tensor:
    """Rows for a `MarkedModel`: the flat inputs, and the number of each."""
    flat = inputs.flatten(1)
    kind = flat.dtype if flat.dtype in (torch.float32, torch.float64) else None
    kind = kind or (torch.float32 if flat.is_floating_point() else torch.int64)
    column = numbers.to(kind) / _SCALE if kind.is_floating_point else numbers.to(kind)
    return torch.cat([flat.to(kind), column[:, None]], 1)
