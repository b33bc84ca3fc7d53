"""Numbers that stand for a missing value, 99 among answers of 1 to 5: found where they lie far from all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from discreet.core.array_types import Array

_ENDS = (("9", "9"), ("8", "8"), ("7", "7"), ("9", "8"), ("9", "7"))
_POSITIVE = [float(digit * length + last) for digit, last in _ENDS for length in range(6)]
_CODES = (*_POSITIVE, *(-code for code in _POSITIVE), -1.0, -2.0)
"""7 to 9, 77 to 99999, 97, 98, 998 and so on, and their negatives."""


def missing_codes(columns: Mapping[str, Array], texts: Collection[str] = ()) -> dict[float, list[str]]:
    """Codes with their columns. A code is further from the other values of a column than these are from each other, no
    other column has it among its values, and it is none of the `texts`. `columns`: numbers without missing ones."""
    ranges: dict[str, tuple[float, float]] = {}
    found: dict[float, list[str]] = {}
    for name, values in columns.items():
        others = np.unique(values[~np.isin(values, _CODES)])
        if len(others) > 1:
            ranges[name] = float(others[0]), float(others[-1])
    for name, (low, high) in ranges.items():
        for code in set(_CODES) & set(columns[name].tolist()):
            if code > high + (high - low) or code < low - (high - low):
                found.setdefault(code, []).append(name)
    meant = {code for code in found for low, high in ranges.values() if low <= code <= high}
    return {code: found[code] for code in sorted(found) if code not in meant and f"{code:.15g}" not in texts}
