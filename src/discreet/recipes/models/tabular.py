"""A model for encoded tables: numbers as pieces, categories as embeddings, and fully connected layers.

It needs nothing of a table but `kinds` (`Encoder.kinds`): no statistics of the data normalise it, unless a center was
bought.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.features.initial_weights import drawn

_CONSTANT = 0.1
"""The constant input beside rows of norm 1: large enough to learn class frequencies, but a small part of the clip norm.
"""


class UnitNorm(nn.Module):
    """Scales every row to L2 norm 1, so that gradients of the following layer keep about one length throughout
    training, clipping changes them little, and probabilities stay calibrated."""

    def forward(self, rows: Tensor) -> Tensor:
        return F.normalize(rows, dim=1)


class Columns(nn.Module):
    """From encoded rows (n, columns) to features (n, width), without parameters but the embeddings of long columns.

    A number becomes `pieces` hat functions, evenly spaced over its range, so that the model is piecewise linear in it,
    and an indicator that it is missing. A category becomes a one-hot input; a column of more than `most_inputs`
    categories is embedded in `embedding` dimensions. Every column has a norm of about 1, and a row of about `scale`,
    whatever the data.
    """

    most_inputs = 64

    def __init__(self, kinds: Sequence[int], pieces: int, embedding: int, scale: float) -> None:
        super().__init__()
        self._numbers = [place for place, kind in enumerate(kinds) if kind == 0]
        self._short = [place for place, kind in enumerate(kinds) if 0 < kind <= self.most_inputs]
        self._long = [place for place, kind in enumerate(kinds) if kind > self.most_inputs]
        short, long = ([kinds[place] for place in places] for places in (self._short, self._long))
        self._inputs, self._scale = sum(short), scale / math.sqrt(len(kinds))
        knots = torch.tensor(range(pieces), dtype=torch.float32)  # on "meta", arange would load torch._dynamo
        self._constant("_knots", knots)
        for name, sizes in (("short", short), ("long", long)):
            self._constant(f"_{name}_sizes", torch.tensor(sizes, dtype=torch.float32))
            self._constant(f"_{name}_starts", torch.tensor([0, *accumulate(sizes)][:-1], dtype=torch.int64))
        self.embedding = None
        if long:
            self.embedding = nn.Embedding(sum(long), embedding)
            nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(embedding))
        self.width = len(self._numbers) * (pieces + 1) + self._inputs + len(long) * embedding

    def forward(self, rows: Tensor) -> Tensor:
        parts = [self._pieces(rows[:, self._numbers]), self._ones(rows[:, self._short])]
        if self.embedding is not None:
            codes = _codes(rows[:, self._long], self._long_sizes) + self._long_starts
            parts.append(self.embedding(codes).flatten(1))
        return self._scale * torch.cat(parts, dim=1)

    def _pieces(self, numbers: Tensor) -> Tensor:
        """(n, numbers) -> (n, numbers * (pieces + 1))."""
        missing = (numbers < 0).to(numbers.dtype).unsqueeze(2)
        return torch.cat([self._hats(numbers) * (1 - missing), missing], dim=2).flatten(1)

    def _hats(self, numbers: Tensor) -> Tensor:
        """(n, numbers) -> (n, numbers, pieces); they sum to 1."""
        places = numbers.clamp(0, 1).unsqueeze(2) * (len(self._knots) - 1)
        return F.relu(1 - (places - self._knots).abs())

    def _ones(self, categories: Tensor) -> Tensor:
        """(n, categories) -> (n, inputs)."""
        codes = _codes(categories, self._short_sizes) + self._short_starts
        return torch.zeros(codes.shape[0], self._inputs, device=codes.device).scatter(1, codes, 1.0)

    def _constant(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value, persistent=False)

    _knots: Tensor
    _short_sizes: Tensor
    _short_starts: Tensor
    _long_sizes: Tensor
    _long_starts: Tensor


class UnitColumns(Columns):
    """Features like those of `Columns` that generalise better from few rows: rows of norm 1, and a constant.

    A number becomes its place, from -1 to 1. With `pieces`, half of it is hat functions less their mean, and the place
    is twice as steep in the middle half of the range and constant outside. The first category of a column in `binary`
    has no input, because it is usually "no". So the common part of all rows takes little of the clip norm, and every
    row has the same length.
    """

    most_inputs = 4096

    def __init__(self, kinds: Sequence[int], pieces: int, embedding: int, binary: Sequence[int] = ()) -> None:
        super().__init__(kinds, pieces, embedding, scale=1.0)
        self.width += len(self._numbers) + 1
        says = torch.ones(self._inputs)
        says[self._short_starts[[self._short.index(place) for place in binary]]] = 0
        self._constant("_says", says)

    def forward(self, rows: Tensor) -> Tensor:
        return F.pad(self.unit(rows), (0, 1), value=_CONSTANT)

    def unit(self, rows: Tensor) -> Tensor:
        """(n, columns) -> (n, width - 1), rows of norm 1."""
        return F.normalize(super().forward(rows), dim=1)

    def _ones(self, categories: Tensor) -> Tensor:
        return super()._ones(categories) * self._says

    def _pieces(self, numbers: Tensor) -> Tensor:
        """(n, numbers) -> (n, numbers * (pieces + 2))."""
        there = (numbers >= 0).to(numbers.dtype).unsqueeze(2)
        places = (2 * numbers - 1).unsqueeze(2)
        if len(self._knots):
            hats = self._hats(numbers) - 1 / len(self._knots)
            places = torch.cat([(2 * places).clamp(-1, 1), hats], dim=2) / math.sqrt(2)
        return torch.cat([places * there, 1 - there], dim=2).flatten(1)

    _says: Tensor


class CenteredColumns(UnitColumns):
    """Features of `UnitColumns` less a `center`, scaled to norm 1 again, and a constant."""

    center: Tensor

    def __init__(self, kinds: Sequence[int], pieces: int, embedding: int, binary: Sequence[int] = ()) -> None:
        super().__init__(kinds, pieces, embedding, binary)
        if self.embedding is not None:
            raise InputError("a center is of features that are fixed, and long columns have embeddings, which train")
        self._constant("center", torch.zeros(self.width - 1))

    def forward(self, rows: Tensor) -> Tensor:
        return F.pad(F.normalize(self.unit(rows) - self.center, dim=1), (0, 1), value=_CONSTANT)


def tabular(
    kinds: list[int],
    outputs: int,
    hidden: list[int] | None = None,
    pieces: int = 12,
    embedding: int = 8,
    scale: float = 1.0,
    seed: int = 0,
    unit_rows: bool = False,
    binary: list[int] | None = None,
    centered: bool = False,
) -> nn.Module:
    """Features of `Columns`, layers of `hidden` units with ReLU, if any, and a last layer that starts at zero.

    `scale`: the norm of a row of features. `unit_rows`: use `UnitColumns` with the `binary` columns instead, or
    `CenteredColumns` if they are `centered`. Weights are drawn from the declared `seed`.
    """
    if centered and not unit_rows:
        raise InputError("centered goes with unit_rows")
    with drawn(seed):
        columns = Columns(kinds, pieces, embedding, scale)
        if unit_rows:
            columns = (CenteredColumns if centered else UnitColumns)(kinds, pieces, embedding, binary or [])
        layers: list[nn.Module] = [columns]
        for width_in, width_out in pairwise([columns.width, *(hidden or [])]):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        if hidden:
            layers.append(UnitNorm())
        last = nn.Linear((hidden or [columns.width])[-1], outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _codes(places: Tensor, sizes: Tensor) -> Tensor:
    """Numbers of categories, from their encoded values."""
    return torch.minimum((places * sizes).long().clamp(min=0), sizes.long() - 1)
