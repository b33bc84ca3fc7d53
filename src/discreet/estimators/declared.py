"""Declarations about the rows before they are seen. Nothing here depends on the data."""

from __future__ import annotations

import datetime
import itertools
import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.tables import Schema
from discreet.data.tables.files.cells import is_missing
from discreet.estimators.checked import column_names
from discreet.plan.pydantic_base import validate

Bounds = Mapping[str, tuple[float, float]] | Sequence[Any] | npt.ArrayLike
"""(low, high) for all columns, a pair for each in their order, or a pair by name for the columns of a data frame."""

HOW: Mapping[str, str] = {
    "epsilon": "epsilon=3.0 (what may be given away about one unit)",
    "population": "population=1000 (how many rows there are, as the public may know it)",
    "bounds": "bounds=(0.0, 1.0), a pair (low, high) for each column, or a mapping of column names to pairs",
    "columns": "columns={'age': (0, 120), 'ward': ['A', 'B'], 'seen': {'type': 'date', ...}}, as in a schema",
    "classes": "classes=[0, 1] (every label that there may be)",
    "target_bounds": "target_bounds=(0.0, 100.0) (the range of what is predicted; of several, a pair for each)",
}
"""Settings without a default, and how to declare them."""

TARGET = "target"
_UNIT = "unit"
_TRUTH = "{'type': 'boolean'}"


def refuse_undeclared(kind: str, declared: Mapping[str, object]) -> None:
    """Refuse an estimator of this `kind` with missing declarations; one message names all of them."""
    mixed = f", or of a frame with texts, days or gaps {HOW['columns']}"
    missing = [HOW[name] + mixed * (name == "bounds") for name, value in declared.items() if value is None]
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
                f"bounds names {names}, which the rows do not have; theirs are {', '.join(map(repr, columns[:5]))}"
                f"{', ...' if len(columns) > 5 else ''}"
                if unknown
                else f"bounds lacks the columns {names}; declare (low, high) for each"
            )
        bounds = [bounds[name] for name in columns]
    try:
        found = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"bounds must be numbers: {HOW['bounds']}") from None
    if found.shape == (2,):
        found = np.broadcast_to(found, (len(columns), 2))
    if found.shape != (len(columns), 2):
        _refuse_two_lists(found, columns)
        raise InputError(f"bounds has shape {found.shape} for rows of {len(columns)} columns; give {HOW['bounds']}")
    if len(columns) == 2 and not _in_order(found).all():
        _refuse_two_lists(found, columns)
    _check_ranges(found, columns)
    return found


def target_ranges(bounds: Any) -> dict[str, tuple[float, float]]:
    """The declared range of the target, or of several ones, by name. `bounds`: a pair, a pair for each target, or a
    mapping of names to pairs."""
    if isinstance(bounds, Mapping):
        given = {str(name): pair for name, pair in bounds.items()}
    elif _several(bounds):
        given = {f"target_{place}": pair for place, pair in enumerate(bounds, 1)}
    else:
        given = {TARGET: bounds}
    if not given:
        raise InputError(f"target_bounds names nothing: {HOW['target_bounds']}")
    found = {name: _range(pair, "target_bounds", HOW["target_bounds"]) for name, pair in given.items()}
    _check_ranges(np.array(list(found.values())), [name.replace("_", " ") for name in found])
    return found


def targets_in(bounds: Any) -> int:
    """The number of targets that `bounds` declares; 1 if it is no declaration."""
    return max(1, len(bounds)) if isinstance(bounds, Mapping) or _several(bounds) else 1


def in_order(target: Any, bounds: Any) -> Any:
    """A frame of targets with its columns in the order of a mapping `bounds`; anything else as it is."""
    names = column_names(target)
    if not names or not isinstance(bounds, Mapping):
        return target
    if sorted(names) != sorted(map(str, bounds)):
        raise InputError(
            f"y has the columns {', '.join(names)}, and target_bounds declares {', '.join(map(str, bounds))}"
        )
    return target.select(list(bounds)) if hasattr(target, "column_names") else target[list(bounds)]


def _several(bounds: Any) -> bool:
    try:
        return np.ndim(np.asarray(bounds, np.float64)) == 2
    except (TypeError, ValueError, OverflowError):
        return False


def _range(given: Any, what: str, how: str) -> tuple[float, float]:
    try:
        if isinstance(given, str | bytes | set | frozenset):
            raise TypeError
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be a pair of numbers: {how}") from None
    return low, high


def labels(classes: Any) -> npt.NDArray[Any]:
    """The declared labels, sorted, without repetitions; at least two, of one kind (see `alike`)."""
    given = classes.to_pylist() if hasattr(classes, "to_pylist") else classes
    given = list(given) if isinstance(given, set | frozenset) else given
    one_type = InputError("classes must be labels of one type: all text, or all numbers")
    try:
        found = np.unique(np.asarray(given))
    except TypeError:
        raise one_type from None
    if found.ndim != 1 or len(found) < 2:
        raise InputError(f"classes must list at least two labels, for example {HOW['classes']}")
    kinds = {_kind(label) for label in given}
    if len(kinds) > 1:
        raise one_type
    if kinds == {"numbers"} and (found.dtype.kind not in "biuf" or (found % 1 != 0).any()):
        raise InputError(
            "classes are whole numbers that fit 64 bits, or texts, and not continuous; write others as texts"
        )
    if not kinds <= {*_IS}:
        raise InputError(f"classes must be texts or numbers, got labels of the type {kinds.pop()}")
    return found


def alike(target: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels (rows,) of the same kind as the declared `classes`, text or numbers.

    `InputError` names the first row whose label is of another kind, or missing. Values are neither changed nor shown.
    """
    wanted = _kind(classes.tolist()[0])
    found = target.tolist()
    for row, label in enumerate(found if target.dtype == object else found[:1]):
        kind = _kind(label)
        if is_missing(label):
            raise InputError(f"the label of row {row}, counted from 0, is missing; leave the row out")
        if kind not in _IS:
            raise InputError(f"the label of row {row}, counted from 0, is no text and no number; write it as a text")
        if kind != wanted:
            raise InputError(
                f"the label of row {row}, counted from 0, is {_IS[kind]}, and the declared classes are {wanted}; write "
                "both alike"
            )
    return np.array(found) if target.dtype == object and wanted == "numbers" else target


_IS = {"text": "text", "numbers": "a number"}


def _kind(label: object) -> str:
    """text, numbers (truth values too), or the type of what is neither."""
    if isinstance(label, str):
        return "text"
    number = isinstance(label, numbers.Real | np.bool_) and label == label  # NaN is not
    return "numbers" if number else type(label).__name__


def facts_of(columns: Any) -> dict[str, Any]:
    """The declared `columns` as those of a schema: a pair of numbers or days is a range, a list of texts are
    categories, and a mapping is a column as it stands in a schema.

    `InputError` for what needs the whole table: rows that are left out, ranges and categories that are bought, images
    and free text.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise InputError(f"columns must be a mapping: {HOW['columns']}")
    found = {}
    for name, given in columns.items():
        facts = dict(given) if isinstance(given, Mapping) else _short_facts(str(name), given)
        if facts.get("type") in ("image", "text") or "buy" in facts or "drop" in facts.values():
            raise InputError(
                f"columns: {name!r} asks for images or free text, drops rows, or buys its range or categories; that "
                "needs a table with a schema: discreet train TABLE --schema SCHEMA (docs/tables.md)"
            )
        found[str(name)] = facts
    return found


def _short_facts(name: str, given: Any) -> dict[str, Any]:
    """A column that is declared by a pair of numbers or days, or a list of texts."""
    how = f"the range of {name!r} in columns", HOW["columns"]
    if isinstance(given, str | type):
        shown = given if isinstance(given, str) else given.__name__
        raise InputError(
            f"the range of {name!r} in columns must be a pair of numbers, not {shown!r:.80}; any other column is "
            f"a list of texts, or a mapping such as {_TRUTH}"
        )
    if not isinstance(given, Iterable):
        return _numbers_between(given, *how)
    items = [one.astype("M8[D]").item() if isinstance(one, np.datetime64) else one for one in given]
    if items and all(isinstance(one, str) for one in items):
        if len(items) == 2 and all(_is_day(one) for one in items):
            low, high = items
            raise InputError(
                f"columns: {name!r} lists two days as texts; a range of days is {{'type': 'date', 'low': {low!r}, "
                f"'high': {high!r}}}, and a list of texts {{'type': 'category', 'categories': [...]}}"
            )
        return {"type": "category", "categories": [str(one) for one in items]}
    if len(items) == 2 and all(isinstance(one, datetime.date) for one in items):
        low, high = (one.date() if isinstance(one, datetime.datetime) else one for one in items)
        return {"type": "date", "low": low, "high": high}
    if items and all(isinstance(one, bool | np.bool_) for one in items):
        raise InputError(f"columns: {name!r} lists truth values; declare {_TRUTH}")
    if len(items) > 2 and all(isinstance(one, numbers.Integral) for one in items):
        codes = [str(one) for one in items]
        raise InputError(
            f"columns: {name!r} lists {len(items)} numbers; a range is a pair (low, high), and codes are "
            f"{{'type': 'category', 'categories': {codes[:3]}, 'numeric': True}}"
        )
    return _numbers_between(given if isinstance(given, set | frozenset) else items, *how)


def _numbers_between(given: Any, what: str, how: str) -> dict[str, Any]:
    low, high = _range(given, what, how)
    return {"type": "number", "low": low, "high": high}


def _is_day(text: str) -> bool:
    try:
        return bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def numeric_facts(columns: Sequence[str], ranges: Array) -> dict[str, Any]:
    """Columns of numbers for a schema; `ranges` (columns, 2)."""
    return {
        name: {"type": "number", "low": float(low), "high": float(high), "missing": "refuse"}
        for name, (low, high) in zip(columns, ranges, strict=True)
    }


def schema_of(
    columns: Mapping[str, Any], targets: Mapping[str, Any], population: float, rows_per_unit: int | None
) -> Schema:
    """The schema of rows with these columns, for the recipe of tables and for predictions of the published model.

    `targets`: their columns for the schema, by name. `rows_per_unit`: None if every person has one row.
    """
    taken = {*columns, *targets}
    predicted: dict[str, Any] = {}
    for name, column in targets.items():
        chosen = name if name not in columns else _free(f"predicted_{name}", taken)
        predicted[chosen] = dict(column)
        taken.add(chosen)
    unit = _free(_UNIT, taken)
    facts = {
        "columns": {**columns, **predicted},
        "target": list(predicted),
        "population": population,
        "unit": "row" if rows_per_unit is None else unit,
        "rows_per_unit": rows_per_unit or 1,
    }
    return validate(Schema, facts, "estimator")


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with underscores behind it until it is not taken."""
    return next(one for one in (name + "_" * more for more in itertools.count()) if one not in taken)


def _in_order(found: Array) -> npt.NDArray[np.bool_]:
    """For each row (low, high): whether both are finite, and low is below high."""
    right: npt.NDArray[np.bool_] = np.isfinite(found).all(1) & (found[:, 0] < found[:, 1])
    return right


def _refuse_two_lists(found: Array, columns: Sequence[str]) -> None:
    """Refuse bounds that are a list of lows and a list of highs, as other libraries take them."""
    if found.shape == (2, len(columns)) and _in_order(found.T).all():
        first = ", ".join(f"({low:g}, {high:g})" for low, high in found.T[:3])
        raise InputError(
            f"bounds are a list of lows and one of highs; give a pair (low, high) for each column: bounds=[{first}"
            f"{', ...' if len(columns) > 3 else ''}], which is list(zip(lows, highs))"
        )


def _check_ranges(found: Array, columns: Sequence[str]) -> None:
    wrong = ~_in_order(found)
    if wrong.any():
        place = int(np.argmax(wrong))
        low, high = found[place]
        raise InputError(f"the range of {columns[place]} is {low:g} to {high:g}; give finite numbers, low below high")
