"""Refuses rows and targets that scikit-learn would read otherwise than they are meant, or with an error that does not
say how to mend them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.core.errors import InputError, kind_of
from discreet.core.silence import attempted
from discreet.estimators.checked import BY_SCHEMA, column_names, place_of

_DAY = "{'type': 'date', 'low': '2020-01-01', 'high': '2025-01-01'}"


def refuse_unreadable(given: Any, name: str, *, numbers: bool) -> None:
    """Refuse `given` rows (`name` X) or targets (y) that are not there yet, have no rows, or have masked cells; and,
    where they are to be `numbers`, days and durations: scikit-learn would count these from 1970, in a unit of its
    choice.
    """
    if given is None:
        raise InputError(
            f"{name} is None; give rows" if name == "X" else "fit requires y to be passed, but the target y is None"
        )
    if hasattr(given, "collect") and hasattr(given, "collect_schema"):
        raise InputError(f"{name} is a lazy frame, whose rows are not there yet; give {name}.collect()")
    if isinstance(given, Mapping) and not hasattr(given, "shape"):  # sparse matrices may be dictionaries
        raise InputError(f"{name} is {kind_of(given)}; give a frame, for example pandas.DataFrame({name})")
    if name == "X" and hasattr(given, "to_frame"):
        raise InputError("X is a series, which is one column or one row; give a frame, for example X.to_frame()")
    if getattr(given, "requires_grad", False):
        raise InputError(f"{name} is a tensor that gradients are taken of; give {name}.detach()")
    if getattr(getattr(given, "dtype", None), "names", None):
        raise InputError(f"{name} is an array of records; give a frame, for example pandas.DataFrame({name})")
    names = column_names(given)
    twice = [one for one, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"two columns are called {twice[0]!r}; rename one")
    if hasattr(given, "columns") and not names:
        raise InputError(f"{name} has no columns")
    _refuse_masked(given, name)
    if numbers:
        _refuse_times(given, name)


def refuse_other_columns(names: list[str], fitted: list[str]) -> None:
    """Refuse columns of new rows that are not, by their names, those of `fit`; [] of rows without names."""
    if not names or not fitted or names == fitted:
        return
    missing, more = [name for name in fitted if name not in names], [name for name in names if name not in fitted]
    what = (
        f"{missing[0]!r} is missing" if missing else f"{more[0]!r} is one more" if more else "bring them in its order"
    )
    raise InputError(f"the rows have other columns than those of fit: {what}")


def _refuse_masked(given: Any, name: str) -> None:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        place = tuple(int(axis[0]) for axis in np.ma.getmaskarray(given).nonzero())
        way = "leave the row out" if name == "y" else f"fill it with a public value, or {BY_SCHEMA}"
        raise InputError(f"{place_of(place, name)}, is masked; {way}")


def _refuse_times(given: Any, name: str) -> None:
    for column, kind in _times(given):
        what = name if column is None else f"column {column!r} of {name}"
        if kind == "m":
            raise InputError(f"{what} holds durations; give numbers in a unit of your choice, for example days")
        if name == "y":
            raise InputError(
                f"{what} holds days or times; give a number, for example days since a public one, and target_bounds in "
                "its unit"
            )
        raise InputError(
            f"{what} holds days or times, and bounds are of numbers; give a frame with "
            f"columns={{{'NAME' if column is None else column!r}: {_DAY}, ...}} in the place of bounds"
        )


def _times(given: Any) -> Iterator[tuple[str | None, str]]:
    """Columns of days or times (M) and of durations (m), by name, None where there is none."""
    if hasattr(given, "iloc"):
        kinds = given.dtypes if hasattr(given, "columns") else [given.dtype]
        found = [getattr(one, "kind", "") for one in kinds]
    elif (types := _types(given)) is not None:
        found = ["m" if pa.types.is_duration(one) else "M" if pa.types.is_temporal(one) else "" for one in types]
    else:
        array = attempted(lambda: np.asarray(given))
        found = [] if array is None else [array.dtype.kind]
    names = column_names(given)
    for place, kind in enumerate(found):
        if kind in ("m", "M"):
            yield (names[place] if names else None), kind


def _types(given: Any) -> list[pa.DataType] | None:
    """The types of the columns of Arrow or polars; None for others."""
    if not hasattr(given, "__arrow_c_stream__") and not isinstance(given, pa.Array):
        return None
    if column_names(given):
        return attempted(lambda: list(pa.table(given).schema.types))
    return attempted(lambda: [given.type if isinstance(given, pa.Array) else pa.chunked_array(given).type])
