"""Chunks of rows, the units that rows belong to, and means over the rows of a unit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from discreet.core.errors import InputError


@dataclass(frozen=True)
class Units:
    """The first `sizes[0]` rows of a chunk belong to one unit, the next `sizes[1]` to another, and so on.

    Every unit has at least one row. A unit contributes the gradient of the mean of its rows' losses, which is the mean
    of their gradients. The last `padding` units only fill up the chunk and contribute nothing. `at_most`: the most rows
    of any unit in any chunk, a public number, where it is known. It decides how norms are found: the largest unit of a
    chunk would decide it for all others.
    """

    sizes: tuple[int, ...]
    padding: int = 0
    at_most: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.padding <= len(self.sizes):
            raise InputError(f"{self.padding} units cannot be padding among {len(self.sizes)}")
        if not all(size >= 1 for size in self.sizes):
            raise InputError(f"every unit of a chunk needs at least one row, got sizes {self.sizes}")

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def rows(self) -> int:
        """The number of rows of the chunk."""
        return sum(self.sizes)

    @property
    def most(self) -> int:
        """The number of rows of the largest unit."""
        return max(self.sizes, default=0)

    @property
    def limit(self) -> int:
        """The number of rows that norms are found for: `at_most`, or that of the largest unit if it is not known."""
        return max(self.at_most, self.most)

    def counted(self, values: Tensor) -> Tensor:
        """The values of units, shape (units, ...), without the values of padding."""
        return values[: len(values) - self.padding]

    def with_padding(self, values: Tensor, fill: float) -> Tensor:
        """The inverse of `counted`, shape (units,): padding gets the value `fill`."""
        return torch.cat([values, values.new_full((self.padding,), fill)]) if self.padding else values

    @cached_property
    def counts(self) -> Tensor:
        """The sizes as a tensor, int64, shape (units,)."""
        return torch.tensor(self.sizes, dtype=torch.int64)

    @cached_property
    def owners(self) -> Tensor:
        """The number of each row's unit: int64, shape (rows,)."""
        return torch.repeat_interleave(torch.arange(len(self)), self.counts)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The place after the last row of each unit."""
        return tuple(self.counts.cumsum(0).tolist())

    def spread(self, values: Tensor) -> Tensor:
        """The value of each row's unit: shape (rows, ...) from (units, ...)."""
        return values[self.owners.to(values.device)]

    def shared(self, values: Tensor) -> Tensor:
        """The value of each row's unit, divided by the unit's number of rows: shape (rows, ...) from (units, ...)."""
        counts = self.counts.to(values.device).view(-1, *[1] * (values.dim() - 1))
        return self.spread(values / counts)

    def means(self, rows: Tensor) -> Tensor:
        """The mean over the rows of each unit, computed in float64: shape (units, ...) from (rows, ...).

        A row that is not finite makes the mean of its unit not finite.
        """
        wide = rows.double()
        sums = torch.zeros(len(self), *rows.shape[1:], dtype=torch.float64, device=rows.device)
        sums.index_add_(0, self.owners.to(rows.device), wide)
        return sums / self.counts.to(rows.device).view(-1, *[1] * (rows.dim() - 1))

    def side_by_side(self, rows: Tensor) -> Tensor:
        """The rows of each unit beside each other: (units, most x positions, ...) from (rows, positions, ...), with
        zeros where a unit has fewer than `most` rows."""
        places = torch.arange(self.rows) - (torch.tensor((0, *self.ends[:-1])))[self.owners]
        shape = (len(self), self.most, *rows.shape[1:])
        out = torch.zeros(shape, dtype=rows.dtype, device=rows.device)
        out[self.owners.to(rows.device), places.to(rows.device)] = rows
        return out.flatten(1, 2)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that go through the model together, along axis 0, and their units; None if every row is an example."""

    inputs: Tensor
    targets: Tensor
    units: Units | None = None

    @property
    def size(self) -> int:
        """The number of its units, with those that are padding."""
        return len(self.inputs) if self.units is None else len(self.units)

    def grouped(self) -> Units:
        """Its units: those given, or one for each row."""
        return Units((1,) * len(self.inputs)) if self.units is None else self.units

    def copied(self) -> Self:
        """The same numbers in memory of their own."""
        return replace(self, inputs=self.inputs.clone(), targets=self.targets.clone())

    def part(self, start: int, stop: int) -> Self:
        """Units start .. stop - 1."""
        first, last, units = start, stop, self.units
        if units is not None:
            first, last = ((0, *units.ends)[i] for i in (start, stop))
            units = replace(units, sizes=units.sizes[start:stop])
        return replace(self, inputs=self.inputs[first:last], targets=self.targets[first:last], units=units)

    def repeated(self, times: int) -> Self:
        """All of its rows and units, so many times after each other."""
        units = None if self.units is None else replace(self.units, sizes=self.units.sizes * times)
        inputs, targets = (part.repeat(times, *[1] * (part.dim() - 1)) for part in (self.inputs, self.targets))
        return replace(self, inputs=inputs, targets=targets, units=units)

    def filled(self, missing: int) -> Self:
        """This chunk with so many rows more: copies of the first one, which are units of padding."""
        if missing == 0:
            return self
        units = self.grouped()
        units = replace(units, sizes=(*units.sizes, *[1] * missing), padding=units.padding + missing)
        inputs, targets = (
            torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) for part in (self.inputs, self.targets)
        )
        return replace(self, inputs=inputs, targets=targets, units=units)

    def one_by_one(self) -> Iterator[Self]:
        """A chunk of each unit, copied; padding is left out."""
        units = self.grouped()
        sizes = list(units.sizes)
        parts = zip(torch.split(self.inputs, sizes), torch.split(self.targets, sizes), sizes, strict=True)
        for inputs, targets, size in itertools.islice(parts, len(units) - units.padding):
            unit = None if self.units is None else replace(units, sizes=(size,), padding=0)
            yield replace(self, inputs=inputs.clone(), targets=targets.clone(), units=unit)
