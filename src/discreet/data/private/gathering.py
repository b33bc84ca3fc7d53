"""The ways in which data sets give rows: as a pair of tensors, many at once, or one after the other."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from discreet.core.array_types import IntArray


class Gathering(Protocol):
    """A data set that fetches many rows at once and can select rows."""

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these rows, stacked along axis 0."""
        ...

    def taken(self, chosen: IntArray) -> Dataset[Any]:
        """A data set of these rows."""
        ...


class Taken(Dataset[tuple[Tensor, Tensor]]):
    """Some rows of a data set that fetches many at once."""

    def __init__(self, whole: Gathering, chosen: IntArray) -> None:
        self._whole, self._chosen = whole, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather(np.array([index]))
        return inputs[0], targets[0]

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """As in `Gathering`."""
        return self._whole.gather(self._chosen[indices])

    def taken(self, chosen: IntArray) -> Dataset[Any]:
        """As in `Gathering`."""
        return Taken(self._whole, self._chosen[chosen])


def is_pair(dataset: object) -> TypeGuard[TensorDataset]:
    """Whether a data set is inputs and targets in two tensors, and no subclass that may make rows of its own."""
    return type(dataset) is TensorDataset and len(dataset.tensors) == 2


def gathers(dataset: object) -> TypeGuard[Gathering]:
    """Whether a data set can fetch many rows in one call, because its class defines `gather` and `taken`.

    A wrapper that only passes the attributes of another data set on does not, as its own `__getitem__` makes its rows.
    """
    return all(callable(getattr(type(dataset), name, None)) for name in ("gather", "taken"))


def reading_of(dataset: object) -> str:
    """How rows are read from a data set, in words: alike at all sites, as rows may draw random numbers when read."""
    if is_pair(dataset):
        return "a pair of tensors"
    return "many rows at once" if gathers(dataset) else "one row after the other"
