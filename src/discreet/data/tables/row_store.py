"""Encoded rows in a private file on disk, from which training gathers. The file is gone with the process, however that
ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.private.gathering import Taken
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

    def __getitem__(self, wanted: IntArray) -> Tensor:
        """The rows at these places, shape (rows, numbers); neighbours that are asked for in order are read together."""
        size = self._width * _NUMBER
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
        rows = OnDisk(self._file, self._rows, width)
        return StoredRows(rows, self._features, classes=encoder.task == "classes", whole=encoder.whole)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class StoredRows(Dataset[tuple[Tensor, Tensor]]):
    """Pairs of inputs (features,), float32, or int64 if they are `whole` numbers, and targets: a class, int64, if they
    are `classes`, or numbers (targets,), float32."""

    def __init__(self, table: OnDisk, features: int, *, classes: bool, whole: bool) -> None:
        self._table, self._features, self._classes, self._whole = table, features, classes, whole

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather(np.array([index]))
        return inputs[0], targets[0]

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of many rows, stacked along axis 0."""
        found = self._table[indices]
        inputs, targets = found[:, : self._features], found[:, self._features :]
        inputs = inputs.long() if self._whole else inputs.contiguous()
        return inputs, targets[:, 0].long() if self._classes else targets.contiguous()

    def taken(self, chosen: IntArray) -> Taken:
        """The rows at these places."""
        return Taken(self, chosen)
