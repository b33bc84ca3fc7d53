"""Encoded rows in a private file on disk, from which training gathers. The file is gone with the process, however that
ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.tables.encoder import Encoded, Encoder

_NUMBER = 4
"""Bytes of a stored number."""


class OnDisk:
    """Rows of float32 numbers in an open file.

    They are read, not mapped: a mapped page stays in memory with up to two megabytes around it, and a batch of random
    rows would bring the whole file.
    """

    def __init__(self, file: IO[bytes], rows: int, width: int) -> None:
        self._file, self._rows, self._width = file, rows, width

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, places: Tensor) -> Tensor:
        """The rows at these places, shape (rows, numbers); neighbours that are asked for in order are read together."""
        wanted, size = places.numpy(), self._width * _NUMBER
        starts = np.flatnonzero(np.diff(wanted, prepend=wanted[:1] - 2) != 1)
        lengths, offsets = np.diff(starts, append=len(wanted)) * size, wanted[starts] * size
        read = self._read()
        content = b"".join([read(*part) for part in zip(lengths.tolist(), offsets.tolist(), strict=True)])
        if len(content) != len(wanted) * size:
            raise LookupError(f"the private file holds {self._rows} rows, and was asked for others")
        return torch.from_numpy(np.frombuffer(content, dtype=np.float32).reshape(-1, self._width).copy())

    def _read(self) -> Callable[[int, int], bytes]:
        """The number of bytes and where they begin, of one call."""
        if hasattr(os, "pread"):
            return partial(os.pread, self._file.fileno())

        def read(length: int, at: int) -> bytes:
            self._file.seek(at)
            return self._file.read(length)

        return read


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
        kinds = Kinds(self._features, encoder.task == "classes", encoder.whole)
        return StoredRows(OnDisk(self._file, self._rows, width), kinds)

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

    def __init__(self, table: Tensor | OnDisk, kinds: Kinds, chosen: IntArray | None = None) -> None:
        self._table, self._kinds, self._chosen = table, kinds, chosen

    def __len__(self) -> int:
        return len(self._table) if self._chosen is None else len(self._chosen)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather(np.array([index]))
        return inputs[0], targets[0]

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of many rows, stacked along axis 0."""
        places = indices if self._chosen is None else self._chosen[indices]
        found = self._table[torch.from_numpy(places)]
        inputs, targets = found[:, : self._kinds.features], found[:, self._kinds.features :]
        inputs = inputs.long() if self._kinds.whole else inputs.contiguous()
        return inputs, targets[:, 0].long() if self._kinds.classes else targets.contiguous()

    def taken(self, chosen: IntArray) -> StoredRows:
        """The rows at these places."""
        places = chosen if self._chosen is None else self._chosen[chosen]
        return StoredRows(self._table, self._kinds, places)
