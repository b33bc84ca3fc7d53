"""A data set that passes attributes on to another one makes its own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from discreet.core.array_types import IntArray
from discreet.data import PrivateData
from discreet.data.private.gathering import gathers


class PassedOn(Dataset[tuple[Tensor, Tensor]]):
    """Changes the rows of another data set, and passes all attributes on to it."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, target = self.held[index]
        return inputs + 1, target


class Rows(TensorDataset):
    """Fetches many rows at once."""

    def gather(self, indices: IntArray) -> tuple[Tensor, ...]:
        return tuple(part[torch.from_numpy(indices)] for part in self.tensors)

    def taken(self, chosen: IntArray) -> TensorDataset:
        return TensorDataset(*self.gather(chosen))


class Emptied(Rows):
    """Has the names and not the methods."""

    gather = taken = None  # type: ignore[assignment]


def test_rows_are_made_by_the_data_set_that_was_given() -> None:
    """Not by one that it holds, whose attributes it has."""
    rows = Rows(torch.arange(6.0).view(6, 1), torch.zeros(6, dtype=torch.long))
    fetched = PrivateData(PassedOn(rows)).fetch(np.array([4, 1]))
    assert fetched[0].view(-1).tolist() == [5.0, 2.0]
    assert gathers(rows)
    assert not gathers(PassedOn(rows))
    assert not gathers(Emptied(*rows.tensors))
