"""Checks of rows and targets by scikit-learn, with errors that tell the place of a fault and never a value.

Errors of other libraries may hold values, in their text, their arguments and their attributes. So they are neither
shown nor chained: an `InputError` is raised after they are handled, and repeats of a message only what is known here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from discreet.core.errors import InputError
from discreet.core.silence import attempted
from discreet.data.tables.files.cells import is_missing

Result = TypeVar("Result")

BY_SCHEMA = "give a frame with columns={...}, which takes texts, dates and gaps (docs/estimators.md, mixed columns)"

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
    "it contains a single sample."
)

_REPEATED: tuple[tuple[str, str | None], ...] = (
    (r"Input (?:[Xy] )?contains (?:NaN|infinity or a value too large)", None),
    (r"Found array with 0 sample", "has no rows"),
    (r"Found array with 0 feature", "has no columns"),
    (r"Found array with dim \d+, while dim <= 2 is required", None),
    (r"Expected 2D array, got (?:1D|scalar) array instead", None),
    (r"Expected 2D input, got input with shape", "Expected 2D input"),
    (r"Expected a 2-dimensional container", None),
    (r"Found input variables with inconsistent numbers of samples", "{0}: give one target for each row"),
    (r"X has \d+ features, but \w+ is expecting \d+ features as input", None),
    (r"Unable to find the number of features from X of type [\w.]+", None),
    (r"Expected sequence or array-like, got <class '[\w.]+'>", None),
    (r"Input should have at least 1 dimension", None),
    (r"Feature names are only supported if all input features have string names", "{0}, or none has"),
    (r"y should be a 1d array, got an array of shape", "y should be a 1d array, which has one target for each row"),
    (r"(?:This )?\w+ (?:estimator )?requires y to be passed, but the target y is None", None),
    (r"Unknown label type: [a-z-]+", None),
    (r"Complex data not supported", None),
    (
        r"Sparse data was passed(?: for [Xy])?, but dense data is required",
        "{0}; give .toarray(), of a frame of pandas .sparse.to_dense()",
    ),
    (r"np.matrix is not supported. Please convert to a numpy array with np.asarray", None),
)
"""Beginnings of errors of scikit-learn, and what is said in the place of each; None if it is repeated as it is, {0} in
what stands for it. What follows them may be the rows, or tell how many there are."""


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns, [] if it has none; its place for a column whose name is of another kind."""
    listed = "column_names" if hasattr(frame, "column_names") else "columns"  # Arrow's columns are no names
    names = enumerate(getattr(frame, listed, ()))
    return [str(name if isinstance(name, str | int | tuple) else place) for place, name in names]


def plain(check: Callable[[], Result], *, labels: bool = False, **given: object) -> Result:
    """The result of `check`; an error of scikit-learn becomes an `InputError` of one line, without values of rows.

    `given`: the checked objects by name; the error names row and column of the first cell that is no number. `labels`:
    `y` holds labels, which may be texts.
    """
    try:
        return check()
    except (InputError, MemoryError):
        raise
    except Exception as error:
        kind, known = type(error).__name__, _known(str(error))
    raise InputError(_unread(kind, given, labels) if known is None else _repeated(known, given, labels))


def _known(said: str) -> str | None:
    """The part of an error of scikit-learn that is passed on, which has no value of a row; None for other errors."""
    for begin, instead in _REPEATED:
        if (found := re.match(begin, said)) is not None:
            return found[0] if instead is None else instead.format(found[0])
    return None


def _repeated(said: str, given: dict[str, object], labels: bool) -> str:
    if said.startswith("has no "):
        empty = [name for name, one in given.items() if attempted(lambda one=one: np.asarray(one).size) == 0]  # type: ignore[misc]
        return f"{' or '.join(empty or given) or 'the frame'} {said}"
    if said.startswith("Expected 2D"):
        return f"{said}. {_RESHAPE}"
    if labels and "NaN" in said and (place := _first_cell({"y": given.get("y")}, is_missing)) is not None:
        return f"{place}, is missing; leave the row out"
    for word, wrong, way in _WAYS:
        if word in said and (place := _first_cell(given, wrong)) is not None:
            way = "leave the row out" if " of y" in place else way
            return f"{said}. The first is {place}; {way}"
    return said


def _unread(kind: str, given: dict[str, object], labels: bool) -> str:
    if (place := _first_cell({"y": given.get("y")}, is_missing)) is not None:
        return f"{place}, is missing; leave the row out"
    place = _first_cell({name: one for name, one in given.items() if not (labels and name == "y")}, _is_text)
    if place is None:
        return f"{' or '.join(given) or 'the rows'} cannot be read as an array ({kind}); give a number in every cell"
    if " of y" in place:
        return f"{place}, is no number; encode it, or leave the row out"
    return f"{place}, is no number; encode it, leave it out, or {BY_SCHEMA}"


def _first_cell(given: dict[str, object], wrong: Callable[[Any], bool]) -> str | None:
    """The place of the first cell that is wrong, in words; None if there is none."""
    for name, values in given.items():
        table = attempted(lambda values=values: np.asarray(values, dtype=object))  # type: ignore[misc]
        if table is None or not table.ndim:  # only an array has cells
            continue
        columns = column_names(values)
        for place in np.ndindex(table.shape[:2]):
            if wrong(table[place]):
                return place_of(place, name, columns)
    return None


def place_of(place: tuple[int, ...], name: str, columns: Sequence[str] = ()) -> str:
    """A cell of `name` in words."""
    column = "" if len(place) < 2 else f", column {columns[place[1]] if columns else place[1]!r}"
    return f"row {place[0]} of {name}{column}, counted from 0"


def _is_gap(cell: Any) -> bool:
    """Whether a cell is empty: NaN, as a number or a text that is read as one, None or pandas' NA."""
    try:
        return math.isnan(float(cell))
    except TypeError:
        return True
    except Exception:
        return False


def _is_infinite(cell: Any) -> bool:
    try:
        return math.isinf(float(cell))
    except OverflowError:
        return True
    except Exception:
        return False


def _is_complex(cell: Any) -> bool:
    return isinstance(cell, complex | np.complexfloating)


def _is_text(cell: Any) -> bool:
    return attempted(lambda: float(cell)) is None


_WAYS = (
    ("NaN", _is_gap, f"fill it with a public value, or {BY_SCHEMA}"),
    ("infinity", _is_infinite, "give a finite number"),
    ("Complex", _is_complex, "give real numbers, its parts in two columns for example"),
)
"""By a word of the error: which cells are meant, and what to do with one of X."""
