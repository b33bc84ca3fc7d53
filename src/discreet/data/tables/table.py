"""Tables for training: a private one, encoded once to a private file; and a public one, encoded in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from discreet.core.array_types import BoolArray, IntArray
from discreet.core.errors import InputError
from discreet.data.tables.encoder import Encoded, Encoder
from discreet.data.tables.files.as_written import as_written
from discreet.data.tables.images import Once, opened, sources
from discreet.data.tables.problems import Problems
from discreet.data.tables.row_store import Store, StoredRows
from discreet.data.tables.values import BadValue, identifiers

Seen = Callable[[Tensor], Tensor]
"""Fixed features: from inputs (rows, width) to features (rows, ...), each row by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivateTable:
    """Encoded rows of a private table. `units`: the person of each row; `ids`: the identifier of each row."""

    rows: StoredRows
    units: pa.ChunkedArray | None = None
    ids: pa.ChunkedArray | None = None

    def owners(self, *, by_name: bool) -> object:
        """One person identifier for each row; None if every person has one row. They are names, or numbers that are
        equal exactly where names are, which take less memory."""
        if self.units is None or by_name:
            return named(self.units)
        codes = self.units.dictionary_encode().combine_chunks()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.chunk(0)
        return np.asarray(codes.indices, np.int64)


def named(values: pa.ChunkedArray | None) -> object:
    """Identifiers as whole numbers or texts."""
    if values is None:
        return None
    return values.to_numpy() if pa.types.is_integer(values.type) else values.to_pylist()


@contextmanager
def private_table(
    path: Path, encoder: Encoder, folder: Path, seen_as: Seen | None = None, *, whole: bool = True
) -> Iterator[PrivateTable]:
    """Read and encode the table at `path` once, to a private file in `folder` that is gone at the end.

    With `seen_as`, features are stored. A table of images may be a folder with a sub-folder for each class. `whole`:
    False for the rows of one site among several.

    `InputError` if the table cannot be read or a value is refused, or if a whole one has a column without a known
    value, or one target in all rows. Such messages go to the holder of the data.
    """
    schema, seen = encoder.schema, _Seen(encoder)
    apart: dict[str, list[pa.Array]] = {name: [] for name in (schema.unit_column, schema.row_id) if name is not None}
    with closing(Store(encoder, folder)) as store:
        for rows, block in _encoded(path, encoder, schema.read):
            seen.note(rows)
            store.append(_as(rows, seen_as))
            for name, parts in apart.items():
                parts.append(block.column(name).filter(pa.array(rows.kept)))
        seen.check(path, whole=whole)
        chunks = {name: pa.chunked_array(parts) for name, parts in apart.items()}
        units, ids = (None if name is None else chunks[name] for name in (schema.unit_column, schema.row_id))
        yield PrivateTable(store.rows(), units, ids)


@dataclass(frozen=True, slots=True, eq=False)
class PublicTable:
    """Rows of a table that is declared public. `groups`: which rows belong to each subgroup. `clipped` (rows, targets):
    which targets were outside of their range."""

    inputs: Tensor
    targets: Tensor
    groups: dict[str, BoolArray]
    clipped: BoolArray

    def mixed(self) -> PublicTable:
        """The rows in a fixed shuffled order, so that any part of them has rows of each class (a folder of images comes
        class by class)."""
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(self.targets))
        places = torch.from_numpy(order)
        groups = {name: rows[order] for name, rows in self.groups.items()}
        return PublicTable(self.inputs[places], self.targets[places], groups, self.clipped[order])


def public_table(path: Path, encoder: Encoder, seen_as: Seen | None = None) -> PublicTable:
    """A table declared public, encoded in memory, with the schema's subgroups. Errors as in `private_table`.

    It may be written in another way than the private one (`as_written`).
    """
    schema = encoder.schema
    inputs, targets, clipped = [], [], []
    codes: dict[str, list[IntArray]] = {name: [] for name in schema.subgroups}
    wanted = [name for name in schema.read if name not in _apart(encoder)]
    encoder, start = Encoder(as_written(path, schema, wanted)), 0
    for rows, block in _encoded(path, encoder, wanted):
        assert rows.targets is not None
        inputs.append(_as(rows, seen_as).inputs)
        targets.append(rows.targets)
        clipped.append(encoder.clipped(block)[rows.kept])
        for name, parts in codes.items():
            with _placed(path, start, name):
                parts.append(encoder.codes(name, block)[rows.kept])
        start += block.num_rows
    if not sum(map(len, inputs)):
        raise InputError(f"{path} has no rows; give a table with at least one")
    found = torch.from_numpy(np.concatenate(targets))
    groups = {
        f"{name}={category}": np.concatenate(codes[name]) == number
        for name in schema.subgroups
        for number, category in enumerate(encoder.categories(name))
    }
    read = torch.from_numpy(np.concatenate(inputs))
    return PublicTable(
        read.long() if encoder.whole else read,
        found[:, 0].long() if encoder.task == "classes" else found,
        groups,
        np.concatenate(clipped),
    )


def new_rows(path: Path, encoder: Encoder) -> Iterator[Encoded]:
    """The features of a table block by block, for predictions; targets, units and identifiers may be missing.

    It may be written in another way than the private one (`as_written`), and have columns that the schema does not
    name.
    """
    start, problems = 0, Problems(path)
    schema = as_written(path, encoder.schema, encoder.schema.features)
    encoder = Encoder(schema.model_copy(update={"others": "ignore"}))
    for block in sources(path, encoder.schema, encoder.schema.features, problems):
        ready = opened(block, path, encoder.schema, start)
        yield encoder.encode(ready, start, targets=False, problems=problems)
        start += block.num_rows
        if problems.full:
            break
    problems.check()


def image_paths(path: Path, encoder: Encoder) -> list[str] | None:
    """The paths of the images that `new_rows` reads, in the same order; None where there are none."""
    if encoder.schema.wide is None or encoder.whole:
        return None
    found = [block.column(0) for block in sources(path, encoder.schema, encoder.schema.features)]
    if any(not pa.types.is_string(values.type) for values in found):
        return None
    return [name or "" for values in found for name in values.to_pylist()]


def _as(rows: Encoded, seen_as: Seen | None) -> Encoded:
    if seen_as is None or not len(rows.inputs):
        return rows
    return replace(rows, inputs=seen_as(torch.from_numpy(rows.inputs)).flatten(1).numpy())


def _apart(encoder: Encoder) -> set[str | None]:
    return {encoder.schema.unit_column, encoder.schema.row_id} - {*encoder.schema.subgroups, *encoder.schema.features}


def _encoded(path: Path, encoder: Encoder, wanted: Sequence[str]) -> Iterator[tuple[Encoded, pa.RecordBatch]]:
    """The blocks of a table: encoded, and as read, with identifiers in the form in which they are compared.

    `InputError` at the end lists the first values that are refused.
    """
    problems = Problems(path)
    schema, start, once = encoder.schema, 0, Once(path, encoder.schema)
    marks = schema.marks
    for block in sources(path, schema, wanted, problems):
        once.note(block, start)
        ready = opened(block, path, schema, start)
        rows = encoder.encode(ready, start, problems=problems)
        for name in (schema.unit_column, schema.row_id):
            if name is None or name not in block.schema.names:
                continue
            with _placed(path, start, name):
                block = _with(block, name, identifiers(block.column(name), marks))
        yield rows, block
        start += block.num_rows
        if problems.full:
            break
    problems.check()


@contextmanager
def _placed(path: Path, start: int, name: str) -> Iterator[None]:
    """A bad value as an `InputError` with its place. `start`: the number of the first row of its block."""
    try:
        yield
    except BadValue as bad:
        raise InputError(f"{path}: row {start + bad.row + 1}, column {name!r}: {bad}") from None


def _with(block: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return block.set_column(block.schema.get_field_index(name), name, values)


class _Seen:
    """Records which columns have any informative value."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._informative = np.zeros(len(encoder.kinds), np.bool_)
        self._least: Any = np.inf
        self._most: Any = -np.inf

    def note(self, rows: Encoded) -> None:
        """Record encoded rows."""
        if rows.targets is None or not len(rows.targets):
            return
        self._informative |= self._encoder.informative(rows.inputs).any(axis=0)
        self._least = np.minimum(self._least, rows.targets.min(axis=0))
        self._most = np.maximum(self._most, rows.targets.max(axis=0))

    def check(self, path: Path, *, whole: bool) -> None:
        """Refuse a table without rows, and a `whole` one with a column without any known value, or equal targets."""
        if not np.isfinite(self._least).all():
            raise InputError(f"{path} has no rows to train on; give a table with at least one")
        if not whole:
            return
        for name, known in zip(self._encoder.schema.features, self._informative, strict=True):
            if not known:
                raise InputError(
                    f"{path}: every value of column {name!r} is missing or not as declared; correct its type, "
                    "categories or spelling, or say type: ignore in a schema"
                )
        for name, equal in zip(self._encoder.schema.target, self._least == self._most, strict=True):
            if equal:
                raise InputError(f"{path}: the target {name!r} is the same in every row, so there is nothing to learn")
