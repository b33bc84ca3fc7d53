"""Private data in two parts: rows to train on, and rows held out for metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.private.groups import identifiers_of
from discreet.data.private.private import PrivateData

Side = Callable[[int | str], bool]
"""Whether the unit with this identifier is held out: a function of the identifier alone."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Disjoint rows of one private data set; `held_out` is None where nothing is."""

    training: PrivateData
    held_out: PrivateData | None = None


def hold_out(data: PrivateData, identifiers: object, side: Side, *, are_units: bool) -> Parts:
    """Split by the identifier of each row (whole numbers or text). With `are_units`, rows with one identifier are a
    unit.

    `InputError` if a part is empty; the holder of the data learns that before anything is charged. Where the data lies
    at sites, each of them must keep rows to train on, and nothing may be held out at those of a process: others may
    have what is.
    """
    names = _names(data, identifiers, "units" if are_units else "ids")
    known = {name: side(name) for name in set(names)}
    out = np.fromiter((known[name] for name in names), np.bool_, len(names))
    sites = [range(data.rows)] if data.sites is None else data.sites.ranges.values()
    if any(out[rows.start : rows.stop].all() for rows in sites) or not (out.any() or data.sites is not None):
        taken = "all rows, or all of a site," if out.any() else "no row"
        raise InputError(f"the holdout takes {taken} and leaves a part empty; take another share")
    trained, held = (_rows(data, names, np.flatnonzero(chosen), are_units) for chosen in (~out, out))
    return Parts(trained, held)


def _names(data: PrivateData, identifiers: object, given: str) -> list[int | str]:
    """The identifier of each row; at sites they are given for each of them."""
    if data.sites is None:
        return identifiers_of(identifiers, data.rows, given)
    return [name for names in data.sites.named(identifiers).values() for name in names]


def _rows(data: PrivateData, names: Sequence[int | str], rows: IntArray, are_units: bool) -> PrivateData:
    found, named = data.only(rows), [names[row] for row in rows]
    if not are_units:
        return found
    if found.sites is None:
        return found.grouped(named)
    return found.grouped({number: named[some.start : some.stop] for number, some in found.sites.ranges.items()})
