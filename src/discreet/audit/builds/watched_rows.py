"""Rows that note which of them are read: what a step reads is what it samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, TensorDataset

from discreet.core.array_types import IntArray
from discreet.data.private.gathering import gathers, is_pair
from discreet.data.private.sites import Gathered


class WatchedRows(Dataset[Any]):
    """A data set; `on_read` is told the numbers of the rows that are read, once it is set. `numbers`: those of its
    rows, if they are not counted from 0."""

    def __init__(self, dataset: Dataset[Any], numbers: IntArray | None = None) -> None:
        self.dataset, self._numbers = dataset, numbers
        self.on_read: Callable[[IntArray], None] | None = None

    def __len__(self) -> int:
        return len(cast(Any, self.dataset))

    def __getitem__(self, index: int) -> Any:
        self._note(np.array([index]))
        return self.dataset[index]

    def _note(self, indices: IntArray) -> None:
        if self.on_read is not None:
            places = np.array(indices, np.int64)
            self.on_read(places if self._numbers is None else self._numbers[places])


class WatchedTensors(WatchedRows):
    """The same of a data set that reads many rows at once."""

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """As in `Gathering`."""
        self._note(indices)
        if gathers(self.dataset):
            return self.dataset.gather(indices)
        places = torch.from_numpy(np.asarray(indices))
        inputs, targets = (part[places] for part in cast(TensorDataset, self.dataset).tensors)
        return inputs, targets

    def taken(self, chosen: IntArray) -> Dataset[Any]:
        """As in `Gathering`; what is taken is not watched."""
        if gathers(self.dataset):
            return self.dataset.taken(chosen)
        places = torch.from_numpy(np.asarray(chosen))
        return TensorDataset(*(part[places] for part in cast(TensorDataset, self.dataset).tensors))


def watched(dataset: Dataset[Any], numbers: IntArray | None = None) -> WatchedRows:
    """The data set, watched; `numbers` as in `WatchedRows`."""
    several = is_pair(dataset) or gathers(dataset)
    return (WatchedTensors if several else WatchedRows)(dataset, numbers)


def watchers(dataset: Dataset[Any]) -> list[WatchedRows]:
    """The watched rows in a data set: itself, or those of each site; none if it is not watched."""
    within: list[Any] = [dataset]
    if isinstance(dataset, Gathered):
        within = dataset.sets
    elif isinstance(dataset, ConcatDataset):
        within = list(dataset.datasets)
    return [one for one in within if isinstance(one, WatchedRows)]
