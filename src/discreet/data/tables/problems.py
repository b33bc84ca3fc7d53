"""Faults of the rows of a table, gathered in one pass, so that all can be mended at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet.core.errors import InputError

MOST = 20
"""Different faults that are recorded."""

_ENOUGH = 1000
"""Rows with a fault after which no further block is read."""

_NAMED = 3
"""Rows with the same fault that are named."""


class Problems:
    """The first faults of a table, each one line. They go to the holder of the table, before anything is charged."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path = path
        self._most, self._rows = most, 0
        self._found: dict[str, list[int]] = {}

    def add(self, fault: str, row: int | None = None) -> None:
        """Record a fault, unless many others are. `row`: its number, if the text does not tell."""
        self._rows += 1
        if fault not in self._found and len(self._found) >= self._most:
            return
        rows = self._found.setdefault(fault, [])
        if row is not None and len(rows) <= _NAMED:
            rows.append(row)

    @property
    def full(self) -> bool:
        """Whether so many faults were found that no further block is read."""
        return len(self._found) >= self._most or self._rows >= _ENOUGH

    def check(self) -> None:
        """Raise an `InputError` that lists the recorded faults, if there are any."""
        said = [_places(rows) + fault for fault, rows in self._found.items()]
        if len(said) == 1:
            raise InputError(f"{self.path}: {said[0]}")
        if said:
            first = "the first " if self.full else ""
            raise InputError("\n  ".join([f"{self.path}: {first}{len(said)} problems", *said]))


def _places(rows: Sequence[int]) -> str:
    """The numbers of rows that share a fault, as text before it. How many there are is not said: it is private."""
    more = " and more" if len(rows) > _NAMED else ""
    return f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:_NAMED]))}{more}, " if rows else ""
