"""`Columns`: rows with named fields as pairs of input and target, from pandas, polars, Arrow, from Hugging Face's
`datasets`, or from any map-style data set whose rows are mappings. None of these libraries is imported but pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.private.arrow_frames import ArrowTable, NamedArrays, as_named
from discreet.data.private.gathering import Taken
from discreet.data.private.pairs import Frame, as_array, features, numbers


@runtime_checkable
class _Table(Protocol):
    """The used part of a data set of `datasets`: many rows at once, by column."""

    column_names: Any

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class Columns(Dataset[tuple[Tensor, Tensor]]):
    """Rows with named fields, as pairs of an input and a target.

    - `data`: a DataFrame of pandas or polars, a table of Arrow, a data set of Hugging Face's `datasets` (one split), or
      a map-style data set of mappings from names to numbers and arrays, or a mapping of names to tensors and arrays.
    - `target`: the name of the target. Whole numbers are classes, others numbers.
    - `inputs`: the name of one field, whose arrays are the inputs; or several fields of one number each, which
    are put side by side as float32; or several of arrays of one shape, which are put side by side along axis 1 of a
    batch: as int64 where all hold whole numbers (tokens and their mask), else as float32. The default for a frame is
    all columns but the target.

    `InputError` names a field that is missing, or does not hold numbers of one shape.
    """

    def __init__(self, data: object, target: str, inputs: str | Sequence[str] | None = None) -> None:
        if isinstance(data, Mapping) and data and all(isinstance(part, Tensor | np.ndarray) for part in data.values()):
            data = _alongside(data)
        if isinstance(data, Mapping):
            raise InputError(f"data has the parts {', '.join(map(str, data))}; choose one, for example data['train']")
        data = as_named(data)
        if not isinstance(data, Frame | _Table) and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise InputError(f"data must be a frame or a map-style data set, got {type(data).__name__}")
        self._data: Any = data
        known = _names(self._data)
        if inputs is None and isinstance(self._data, Frame | ArrowTable):
            inputs = [name for name in known if name != target]
        if inputs is None:
            raise InputError("say which field the model sees: Columns(data, target, inputs=NAME)")
        self._inputs, self._target = ([inputs] if isinstance(inputs, str) else list(inputs)), target
        self._single = isinstance(inputs, str)
        for name in (*self._inputs, target):
            if name not in known:
                raise InputError(f"data has no field {name!r}; it has {', '.join(map(str, known))[:200]}")

    @property
    def held(self) -> Any:
        """The data as it was given."""
        return self._data.held if isinstance(self._data, NamedArrays) else self._data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather(np.array([index]))
        return inputs[0], targets[0]

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of many rows, stacked along axis 0."""
        if isinstance(self._data, Frame):
            rows: Any = self._data
            rows = rows.iloc[indices]
            seen = (
                numbers(rows[self._inputs[0]].to_numpy(), self._said(0))
                if self._single
                else features(rows[self._inputs])
            )
            return seen, numbers(rows[self._target].to_numpy(), f"the field {self._target!r}")
        fields = self._fields(indices)
        parts = [as_array(fields[name], self._said(place)) for place, name in enumerate(self._inputs)]
        seen = numbers(parts[0], self._said(0)) if self._single else self._side_by_side(parts)
        return seen, numbers(fields[self._target], f"the field {self._target!r}")

    def taken(self, chosen: IntArray) -> Dataset[Any]:
        """Some of the rows."""
        return Taken(self, chosen)

    def _side_by_side(self, parts: list[np.ndarray]) -> Tensor:
        """Several fields as one tensor, (rows, fields, ...)."""
        shapes = {tuple(part.shape[1:]) for part in parts}
        if len(shapes) > 1:
            raise InputError(
                f"the fields {', '.join(map(repr, self._inputs))} have the shapes {', '.join(map(str, shapes))}; pad "
                "them to one shape, or name one field whose arrays hold all of them"
            )
        real = parts[0].ndim == 1 or any(part.dtype.kind == "f" for part in parts)
        return torch.stack([numbers(part, self._said(place), real=real) for place, part in enumerate(parts)], dim=1)

    def _said(self, place: int) -> str:
        return f"the field {self._inputs[place]!r}"

    def _fields(self, indices: IntArray) -> Mapping[str, Any]:
        """Field by field, the values of many rows."""
        if isinstance(self._data, _Table) and not _transformed(self._data):
            found: Mapping[str, Any] = self._data[indices.tolist()]
            return found
        rows = [self._data[int(index)] for index in indices]
        return {
            name: _alike([as_array(row[name], f"the field {name!r}") for row in rows], name)
            for name in (*self._inputs, self._target)
        }


def _alongside(held: Mapping[Any, Any]) -> NamedArrays:
    """Tensors and arrays by name; `InputError` unless all have as many rows."""
    sizes = {name: len(part) if part.ndim else 0 for name, part in held.items()}
    if len(set(sizes.values())) > 1:
        few, many = (str(pick(sizes, key=sizes.__getitem__))[:80] for pick in (min, max))
        raise InputError(f"the field {few!r} has fewer rows than {many!r}; give each a value for every row")
    return NamedArrays(tuple(held.values()), dict(held), next(iter(sizes.values())))


def _alike(values: list[np.ndarray], name: str) -> list[np.ndarray]:
    """The values of one field of many rows; of one type only, because NumPy would convert all of them together."""
    other = next((value.dtype for value in values if value.dtype != values[0].dtype), None)
    if other is not None:
        raise InputError(
            f"the field {name!r} holds {values[0].dtype} in some rows and {other} in others; convert it to one type: "
            "together they would be converted, and one row would change all others"
        )
    return values


def _transformed(table: Any) -> bool:
    """Whether a table of `datasets` has a transform. A transform sees all requested rows at once and may mix them, or
    pad them to the longest; so rows are then requested one at a time."""
    return bool((getattr(table, "format", None) or {}).get("type") == "custom")


def _names(data: Any) -> list[Any]:
    if isinstance(data, Frame):
        return list(data.columns)
    if isinstance(data, _Table):
        return list(data.column_names)
    if len(data) == 0:
        raise InputError("the data set is empty; give at least one example")
    first = data[0]
    if not isinstance(first, Mapping):
        raise InputError("rows have no names; give the data set itself, whose rows are pairs (input, target)")
    return list(first)
