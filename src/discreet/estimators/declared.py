"""Declarations about the rows before they are seen. Nothing here depends on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.tables import Schema
from discreet.plan.pydantic_base import validate

Bounds = Mapping[str, tuple[float, float]] | Sequence[Any] | npt.ArrayLike
"""(low, high) for all columns, a pair for each in their order, or a pair by name for the columns of a data frame."""

HOW: Mapping[str, str] = {
    "epsilon": "epsilon=3.0 (what may be given away about one unit)",
    "population": "population=1000 (how many rows there are, as the public may know it)",
    "bounds": "bounds=(0.0, 1.0), a pair (low, high) for each column, or a mapping of column names to pairs",
    "classes": "classes=[0, 1] (every label that there may be)",
    "target_bounds": "target_bounds=(0.0, 100.0) (the range of what is predicted)",
}
"""Settings without a default, and how to declare them."""

UNIT = "unit"
"""The schema's column for the person of each row."""


def refuse_undeclared(kind: str, declared: Mapping[str, object]) -> None:
    """Refuse an estimator of this `kind` with missing declarations; one message names all of them."""
    missing = [HOW[name] for name, value in declared.items() if value is None]
    if missing:
        raise InputError(
            f"{kind} needs public facts that are declared, from public knowledge and not by looking at the rows: "
            + "; ".join(missing)
        )


def pairs(bounds: Bounds, columns: Sequence[str]) -> Array:
    """The range of every column as rows (low, high), shape (columns, 2), float64."""
    if isinstance(bounds, Mapping):
        unknown, missing = [n for n in bounds if n not in columns], [n for n in columns if n not in bounds]
        if unknown or missing:
            names = ", ".join(map(repr, (unknown or missing)[:5]))
            raise InputError(
                f"bounds names {names}, which the rows do not have"
                if unknown
                else f"bounds lacks the columns {names}; declare (low, high) for each"
            )
        bounds = [bounds[name] for name in columns]
    try:
        found = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"bounds must be numbers: {HOW['bounds']}") from None
    if found.shape == (2,):
        found = np.broadcast_to(found, (len(columns), 2))
    if found.shape != (len(columns), 2):
        raise InputError(f"bounds has shape {found.shape} for rows of {len(columns)} columns; give {HOW['bounds']}")
    _check_ranges(found, columns)
    return found


def target_range(bounds: Any) -> tuple[float, float]:
    """The declared range of the target."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise InputError(f"target_bounds must be a pair of numbers: {HOW['target_bounds']}") from None
    _check_ranges(np.array([[low, high]]), ["the target"])
    return low, high


def labels(classes: Any) -> npt.NDArray[Any]:
    """The declared labels, sorted, without repetitions; at least two."""
    try:
        found = np.unique(np.asarray(classes))
    except TypeError:
        raise InputError("classes must be labels of one type: all text, or all numbers") from None
    if found.ndim != 1 or len(found) < 2:
        raise InputError(f"classes must list at least two labels, for example {HOW['classes']}")
    return found


def schema_of(
    columns: Sequence[str],
    ranges: Array,
    target: Mapping[str, Any],
    population: float,
    rows_per_unit: int | None,
) -> Schema:
    """The schema of rows with these columns, for the recipe of tables and for predictions of the published model.

    `target`: its column for the schema. `rows_per_unit`: None if every person has one row.
    """
    named = {
        name: {"type": "number", "low": float(low), "high": float(high), "missing": "refuse"}
        for name, (low, high) in zip(columns, ranges, strict=True)
    }
    predicted = "target" if "target" not in named else "predicted_target"
    facts = {
        "columns": {**named, predicted: dict(target)},
        "target": predicted,
        "population": population,
        "unit": "row" if rows_per_unit is None else UNIT,
        "rows_per_unit": rows_per_unit or 1,
    }
    return validate(Schema, facts, "estimator")


def _check_ranges(found: Array, columns: Sequence[str]) -> None:
    wrong = ~(np.isfinite(found).all(1) & (found[:, 0] < found[:, 1]))
    if wrong.any():
        place = int(np.argmax(wrong))
        low, high = found[place]
        raise InputError(f"the range of {columns[place]} is {low:g} to {high:g}; give finite numbers, low below high")
