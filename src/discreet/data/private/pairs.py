"""Pairs of arrays from elsewhere as tensors: NumPy arrays, frames and series of pandas and polars, tables of Arrow."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.data.private.arrow_frames import ArrowTable, as_named, column, is_arrow

_LARGEST = 2**63 - 1


@runtime_checkable
class Frame(Protocol):
    """The used part of a pandas DataFrame."""

    columns: Any
    dtypes: Any

    def to_numpy(self) -> np.ndarray:
        """All of it."""
        ...

    def __getitem__(self, names: Any, /) -> Any:
        """One column, or a frame of several."""
        ...


@runtime_checkable
class _Series(Protocol):
    def to_numpy(self) -> np.ndarray: ...


def paired(data: object) -> tuple[Tensor, Tensor] | None:
    """(inputs, targets) as tensors if `data` is a pair of arrays; otherwise None. `InputError` names what is wrong.

    | inputs, targets        | become                                                                           |
    |------------------------|----------------------------------------------------------------------------------|
    | tensors                | themselves                                                                       |
    | NumPy arrays, series   | float32 if they are floating point, else int64                                   |
    | a frame of inputs      | float32, in the order of its columns, which must be numbers                      |
    | polars, Arrow          | the same as NumPy and frames of pandas                                           |
    """
    if not isinstance(data, tuple) or len(data) != 2:
        return None
    refuse_other_order(*data)
    inputs, targets = (_tensor(part, name) for part, name in zip(data, ("inputs", "targets"), strict=True))
    if inputs is None or targets is None:
        return None
    for part, name in ((inputs, "inputs"), (targets, "targets")):
        if part.dim() == 0:
            raise InputError(f"data has a single number as its {name}; give a row for each unit")
    if len(inputs) != len(targets):  # not how many of each: the number of rows is private
        which = "fewer" if len(targets) < len(inputs) else "more"
        raise InputError(f"data has {which} targets than inputs; give one for each")
    return inputs, targets


def refuse_other_order(inputs: object, targets: object) -> None:
    """Refuse targets of pandas whose index has the rows of the inputs in another order: pairs go by place."""
    one: Any = getattr(inputs, "index", None)
    other: Any = getattr(targets, "index", None)
    if one is None or not (hasattr(one, "equals") and hasattr(other, "equals")) or one.equals(other):
        return
    if one.is_unique and len(one) == len(other) and one.isin(other).all():
        raise InputError(
            "by their index, targets have another order than inputs, and rows are paired by place; give "
            "targets.loc[inputs.index]"
        )


def numbers(values: Any, what: str, *, real: bool = False) -> Tensor:
    """An array or tensor as float32 if it is floating point or `real`, else int64. `InputError` for whole numbers of
    2^63 and above, which int64 does not hold: they would become negative."""
    found = as_array(values, what)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{what} holds {found.dtype}, not numbers; encode it first, or train from a table")
    if real or found.dtype.kind == "f":
        return torch.from_numpy(np.array(found, np.float32))
    if found.dtype.kind == "u" and found.size and int(found.max()) > _LARGEST:
        raise InputError(
            f"{what} holds whole numbers of 2^63 or above, which int64 does not; convert it, to float64 if it is an "
            "amount, or to the numbers of categories if it is a code"
        )
    return torch.from_numpy(np.array(found, np.int64))


def as_array(values: Any, what: str) -> np.ndarray:
    """Values as an array; bfloat16, which NumPy does not have, as float32, which holds all of it."""
    if isinstance(values, Tensor):
        plain = values.detach().cpu()
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    if isinstance(values, list) and any(isinstance(one, Tensor) for one in values):
        values = [as_array(one, what) for one in values]
    if np.ma.is_masked(values):
        raise InputError(
            f"{what} has masked values, which are no numbers; fill them with a public value, or leave them out"
        )
    try:
        found = np.asarray(values)
    except ValueError:
        raise InputError(f"{what}: rows have different shapes; bring them to one shape first") from None
    return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


def features(frame: Frame | ArrowTable) -> Tensor:
    """The columns of a frame side by side, (rows, columns), float32."""
    if isinstance(frame, ArrowTable):
        whole = frame[:]
        parts = [numbers(whole[name], f"the column {name!r}", real=True) for name in frame.column_names]
        if any(part.dim() != 1 for part in parts):
            raise InputError("a column holds lists; name it alone: discreet.Columns(data, target=NAME, inputs=NAME)")
        return torch.stack(parts, dim=1)
    names = list(frame.columns)
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InputError(f"two columns are called {twice!r}; rename one")
    parts = [numbers(frame[name].to_numpy(), f"the column {name!r}", real=True) for name in names]
    return torch.stack(parts, dim=1) if parts else torch.zeros(len(frame.to_numpy()), 0)


def _tensor(part: object, what: str) -> Tensor | None:
    if isinstance(part, Tensor):
        return part
    if isinstance(part, np.ndarray):
        return numbers(part, what)
    part = as_named(part)
    if isinstance(part, Frame | ArrowTable):
        return features(part)
    if is_arrow(part):
        return numbers(column(part), what)
    return numbers(part.to_numpy(), what) if isinstance(part, _Series) else None
