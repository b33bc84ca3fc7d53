"""Private data in disjoint parts; a unit's identifier decides its part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.core.errors import InputError
from discreet.data.private.groups import identifiers_of
from discreet.data.private.private import PrivateData

Place = Callable[[int | str], int]
"""The part of the unit with this identifier, from 0: a function of the identifier alone."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows of one part, in the order of the data, and the identifier of each."""

    data: PrivateData
    names: list[int | str]


def in_parts(data: PrivateData, identifiers: object, place: Place, parts: int) -> list[Portion]:
    """All rows of the data in `parts` parts, by the identifier of each row: whole numbers or text.

    Rows with one identifier are in one part. `InputError` if a part is empty; the holder of the data learns that before
    anything is charged.
    """
    names = identifiers_of(identifiers, data.rows, "ids")
    places = {name: place(name) for name in set(names)}
    at = np.fromiter((places[name] for name in names), np.int64, len(names))
    found = []
    for part in range(parts):
        rows = np.flatnonzero(at == part)
        if len(rows) == 0:
            raise InputError(f"part {part + 1} of {parts} of the data has no row; take fewer candidates, or more rows")
        found.append(Portion(data.only(rows), [names[row] for row in rows]))
    return found
