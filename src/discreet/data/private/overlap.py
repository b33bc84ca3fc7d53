"""Whether rows declared public are the private ones: the same objects, or the same memory. Clones are not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, StackDataset, Subset, TensorDataset

from discreet.core.errors import InputError
from discreet.data.private.augmented import Augmented
from discreet.data.private.private import PrivateData

_WORK = 10**5
_ROWS = 200
_BLOCKS = 500
_COLUMNS = 8


def refuse_own_rows(name: str, public: object, private: object) -> None:
    """Refuse data declared public, by `name`, that is the private data or lies in its memory. A best effort."""
    if share_rows(public, private):
        raise InputError(
            f"{name} is the training data itself, or shares rows with it, and that is private; "
            "give data that may be public"
        )


def share_rows(one: object, other: object) -> bool:
    """Whether both are one object, hold a common object, or have arrays that share bytes.

    Looks into pairs, lists of rows, frames, loaders, `TensorDataset`, `Subset`, `ConcatDataset`, `StackDataset`,
    mappings of data sets, and views of one table of `datasets` (`select`, `shuffle`, `train_test_split`). Copies are
    not noticed.
    """
    mine, theirs = list(_parts(one)), list(_parts(other))
    if {id(part) for part in mine} & {id(part) for part in theirs}:
        return True
    if _in_view(mine, theirs) or _in_view(theirs, mine):
        return True
    blocks, others = (
        list(islice((found for part in parts for found in _memory(part)), _BLOCKS)) for parts in (mine, theirs)
    )
    return any(_overlap(a, b) for a in blocks for b in others)


def _in_view(mine: list[Any], theirs: list[Any]) -> bool:
    """Whether a view in `mine` has a row in common with a data set or a view in `theirs`."""
    whole = {id(part) for part in theirs if not isinstance(part, Subset)}
    views, others = ([_rooted(part) for part in parts if _is_view(part)] for parts in (mine, theirs))
    if any(id(root) in whole and rows for root, rows in views):
        return True
    return any(_common_rows(one, other) for one in views for other in others)


def _is_view(part: Any) -> bool:
    return isinstance(part, Subset) or hasattr(part, "_indices")


def _rooted(part: Any) -> tuple[Any, Any]:
    """The data set that a chain of `Subset`s views, and the numbers of the rows in view; None for all of them."""
    rows = None
    while isinstance(part, Subset):
        numbers = list(part.indices)
        rows = numbers if rows is None else [numbers[place] for place in rows]
        part = part.dataset
    return part, rows


def _common_rows(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two views show a common row of one data set."""
    (root, mine), (second, theirs) = one, other
    if root is second and mine is not None and theirs is not None:
        return bool(set(mine) & set(theirs))
    first, third = _arrow_rows(root, mine), _arrow_rows(second, theirs)
    return any(np.intersect1d(first[place], third[place]).size for place in first.keys() & third.keys())


def _arrow_rows(data: Any, rows: Any) -> dict[int, np.ndarray]:
    """Of a data set of `datasets`: for each buffer in memory, the numbers of its rows that are in view."""
    table = getattr(getattr(data, "data", None), "table", None)
    if table is None or not hasattr(data, "_indices") or not table.num_columns:
        return {}
    shown = np.arange(len(data)) if rows is None else np.asarray(rows)
    if data._indices is not None:  # a selection or a shuffle: numbers of rows of the table
        shown = data._indices.column(0).to_numpy()[shown]
    found: dict[int, np.ndarray] = {}
    for column in table.columns[:_COLUMNS]:
        start = 0
        for chunk in column.chunks:
            inside = shown[(shown >= start) & (shown < start + len(chunk))] - start + chunk.offset
            address = next((buffer.address for buffer in chunk.buffers()[1:] if buffer is not None), None)
            if address is not None and inside.size:
                found[address] = np.concatenate([found.get(address, inside[:0]), inside])
            start += len(chunk)
    return found


def _parts(data: Any) -> Iterator[object]:
    """The objects that hold rows: `data`, and what is inside."""
    if data is None or isinstance(data, str | bytes | int | float | bool):
        return
    if not isinstance(data, tuple):  # a new pair may hold the same arrays
        yield data
    if isinstance(data, PrivateData | DataLoader):
        yield from _parts(data.dataset)
    elif isinstance(data, Augmented):
        yield from _parts(data.data)
    elif isinstance(data, TensorDataset):
        yield from data.tensors
    elif isinstance(data, ConcatDataset | StackDataset):
        held = data.datasets
        yield from _parts(list(held.values()) if isinstance(held, dict) else held)
    elif isinstance(data, Mapping):  # data sets by name; a row may be a mapping, too
        for part in data.values():
            if isinstance(part, Dataset) or (hasattr(part, "_indices") and not isinstance(part, Tensor)):
                yield from _parts(part)
    elif isinstance(data, Subset) and isinstance(data.dataset, TensorDataset):
        yield from (one[i : i + 1] for i in list(data.indices)[:_ROWS] for one in data.dataset.tensors)
    elif isinstance(data, tuple | list):
        for part in data:
            yield from _parts(part)
    elif hasattr(data, "held"):  # what wraps rows of another library
        yield from _parts(data.held)


def _memory(part: Any) -> Iterator[np.ndarray]:
    """Its arrays as byte ranges in memory; nothing is read."""
    if isinstance(part, Tensor):
        if part.layout == torch.strided and part.numel() and part.data_ptr():
            yield np.asarray(_Addressed(part))
    elif isinstance(part, np.ndarray):
        yield part
    elif hasattr(part, "iloc"):
        columns = [part[name] for name in list(part.columns)[:_COLUMNS]] if hasattr(part, "columns") else [part]
        yield from (found for one in columns if isinstance(found := one.to_numpy(), np.ndarray))
    elif hasattr(part, "__arrow_c_stream__") and not _is_view(part):  # views of `datasets` are compared by their rows
        yield from _arrow_memory(part)


def _arrow_memory(part: Any) -> Iterator[np.ndarray]:
    """The bytes in memory of the rows of an Arrow table, or of a frame that shares its memory with one."""
    import pyarrow as pa

    try:
        columns = pa.table(part).columns[:_COLUMNS]
    except (pa.ArrowException, TypeError, ValueError):
        return
    for chunk in (chunk for column in columns for chunk in column.chunks):
        buffer = next((one for one in chunk.buffers()[1:2] if one is not None), None)
        width = _width(chunk.type)
        if buffer is not None and width:
            yield np.frombuffer(buffer, np.uint8)[chunk.offset * width : (chunk.offset + len(chunk)) * width]


def _width(kind: Any) -> int:
    """The bytes that a row takes in the second buffer of an Arrow array, which holds its value or the offset of its
    text; 0 if it takes none, or less than one."""
    import pyarrow as pa

    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return 8
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4
    try:
        return int((kind.index_type if pa.types.is_dictionary(kind) else kind).bit_width) // 8
    except ValueError:
        return 0


class _Addressed:
    """Gives a tensor of any type and device to NumPy as a memory range."""

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.element_size()
        self._kept = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()),
            "typestr": f"|V{size}",
        }


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether they share a byte; where that is too hard to decide, whether their ranges overlap."""
    try:
        return np.shares_memory(one, other, max_work=_WORK)  # type: ignore[arg-type]  # any bound on the work is allowed
    except np.exceptions.TooHardError:
        return True
