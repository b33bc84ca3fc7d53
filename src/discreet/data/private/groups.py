"""The rows of a data set, grouped into units by the identifiers that its holder gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError, kind_of
from discreet.data.tables.files.cells import is_missing


@dataclass(frozen=True, slots=True)
class Groups:
    """The rows of every unit. Units are numbered as they first appear; the rows of each are in ascending order.

    `order`: all rows, unit by unit. The rows of unit u are order[starts[u] : starts[u + 1]].
    """

    order: IntArray
    starts: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def counts(self, units: IntArray) -> IntArray:
        """The number of rows of these units."""
        found: IntArray = self.starts[units + 1] - self.starts[units]
        return found

    def rows(self, unit: int, places: IntArray) -> IntArray:
        """The rows of a unit at these places among its own."""
        found: IntArray = self.order[self.starts[unit] + places]
        return found


def group(identifiers: object, rows: int) -> Groups:
    """Group `rows` rows by their identifiers, one for each row: a tensor, an array or a list of whole numbers or text.

    `InputError` for a wrong number of identifiers, a missing one (NaN, None), or types that do not identify reliably. A
    person whose rows have different identifiers is protected as several persons.
    """
    values = identifiers_of(identifiers, rows)
    numbers: dict[int | str, int] = {}
    owner = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), np.int64, rows)
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(numbers)))]).astype(np.int64)
    return Groups(order, starts)


def identifiers_of(identifiers: object, rows: int, name: str = "units") -> list[int | str]:
    """The identifiers of `rows` rows, given as `name`, as Python values; errors as in `group`."""
    values = _values(identifiers, name)
    if len(values) != rows:
        which = "fewer" if len(values) < rows else "more"  # how many rows there are is private
        raise InputError(f"{name} has {which} identifiers than the data has rows; give one for each row")
    if len({type(value) for value in values}) > 1:
        raise InputError(f"{name} mixes whole numbers and text, so that 7 and '7' would be two; use one of them")
    return values


def _values(identifiers: object, name: str) -> list[int | str]:
    if isinstance(identifiers, Tensor):
        identifiers = identifiers.detach().cpu().numpy()
    table = hasattr(identifiers, "columns") or hasattr(identifiers, "column_names")
    if table or isinstance(identifiers, str | Mapping) or not isinstance(identifiers, Iterable):
        way = "; give one of its columns" if table or isinstance(identifiers, Mapping) else ""
        raise InputError(f"{name} must be one identifier for each row, got {type(identifiers).__name__}{way}")
    values: Iterable[object] = identifiers
    if isinstance(identifiers, np.ndarray):
        if identifiers.ndim != 1:
            raise InputError(f"{name} must be one identifier for each row, got an array of {identifiers.ndim} axes")
        values = identifiers.tolist()
        if identifiers.dtype.kind in "iuU" and not np.ma.is_masked(identifiers):
            return cast("list[int | str]", values)
    elif hasattr(identifiers, "to_pylist"):  # of Arrow
        values = identifiers.to_pylist()
    return [_identifier(value, row, name) for row, value in enumerate(values)]


def _identifier(value: object, row: int, name: str) -> int | str:
    """The identifier as a Python value; two are equal exactly if the identifiers are."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        raise InputError(
            f"row {row} of the data, counted from 0, has no identifier in {name}; give it one, or remove the row"
        )
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise InputError(
        f"the identifier of row {row}, counted from 0, is {kind_of(value)}; {name} must be whole numbers or "
        f"text, which are equal exactly where the {'person' if name == 'units' else 'row'} is the same"
    )
