"""Encoded rows in a private file on disk, from which training gathers. The file is gone with the process, however that
ends."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.tables.encoder import Encoded, Encoder

_RESIDENT = 384 << 20
"""Bytes of the file that may stay mapped at a time."""

_FAULT = 64 << 10
"""The most bytes that reading one row maps: a page and those around it."""


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The mapped file: pages that were read are released now and then, so that they do not pile up."""

    pages: mmap.mmap
    size: int

    def looked_at(self, rows: int, since: int) -> int:
        """How many bytes may be mapped after `rows` more rows; 0 after they were released."""
        mapped = min(self.size, since + rows * _FAULT)
        if self.size <= _RESIDENT or mapped <= _RESIDENT or not hasattr(mmap, "MADV_DONTNEED"):
            return mapped
        self.pages.madvise(mmap.MADV_DONTNEED)
        return 0


class Store:
    """A file of mode 0600 in `folder` (without a name where the system can do that), to which rows are appended."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder, self._folder, self._rows, self._features = encoder, folder, 0, 0
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, prefix=".discreet-")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot write a private file to {folder}: {error.strerror}; name another --out") from None

    def append(self, rows: Encoded) -> None:
        """Append encoded rows, with their targets beside their inputs."""
        assert rows.targets is not None
        if not len(rows.inputs):
            return
        try:
            self._file.write(np.concatenate([rows.inputs, rows.targets], axis=1).tobytes())
        except OSError as error:
            raise InputError(
                f"cannot write the private copy of the table to {self._folder}: {error.strerror}"
            ) from None
        self._rows += len(rows.inputs)
        self._features = rows.inputs.shape[1]

    def rows(self) -> StoredRows:
        """All appended rows as a data set."""
        self._file.flush()
        encoder, width = self.encoder, self._features + len(self.encoder.schema.target)
        if self._rows == 0:
            raise InputError("the table has no rows; give one with at least one")
        pages = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        table = torch.frombuffer(pages, dtype=torch.float32).view(self._rows, width)
        kinds = Kinds(self._features, encoder.task == "classes", encoder.whole)
        return StoredRows(table, kinds, Mapped(pages, len(pages)))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


@contextmanager
def private_store(encoder: Encoder, folder: Path) -> Iterator[Store]:
    """A store that is removed at the end."""
    store = Store(encoder, folder)
    try:
        yield store
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of stored numbers: how many `features`, whether they are `whole` numbers, and whether targets are
    classes."""

    features: int
    classes: bool
    whole: bool = False


class StoredRows(Dataset[tuple[Tensor, Tensor]]):
    """Pairs of inputs (features,), float32 or int64, and targets: a class, int64, or numbers (targets,), float32."""

    def __init__(self, table: Tensor, kinds: Kinds, mapped: Mapped | None, chosen: IntArray | None = None) -> None:
        self._table, self._kinds, self._mapped = table, kinds, mapped
        self._chosen, self._since = chosen, 0

    def __len__(self) -> int:
        return len(self._table) if self._chosen is None else len(self._chosen)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather(np.array([index]))
        return inputs[0], targets[0]

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of many rows, stacked along axis 0."""
        places = indices if self._chosen is None else self._chosen[indices]
        found = self._table[torch.from_numpy(places)]
        if self._mapped is not None:
            self._since = self._mapped.looked_at(len(places), self._since)
        inputs, targets = found[:, : self._kinds.features], found[:, self._kinds.features :]
        inputs = inputs.long() if self._kinds.whole else inputs.contiguous()
        return inputs, targets[:, 0].long() if self._kinds.classes else targets.contiguous()

    def taken(self, chosen: IntArray) -> StoredRows:
        """The rows at these places."""
        places = chosen if self._chosen is None else self._chosen[chosen]
        return StoredRows(self._table, self._kinds, self._mapped, places)
