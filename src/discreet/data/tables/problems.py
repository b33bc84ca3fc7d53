"""Faults of the rows of a table, gathered in one pass, so that all can be mended at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet.core.errors import InputError

MOST = 20
_NAMED = 3
"""Rows with the same fault that are named."""


class Problems:
    """The first faults of a table, each one line. They go to the holder of the table, before anything is charged."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path = path
        self._most = most
        self._found: list[tuple[str, int | None]] = []

    def add(self, fault: str, row: int | None = None) -> None:
        """Record a fault, unless there are many already. `row`: its number, if the text does not tell."""
        if not self.full:
            self._found.append((fault, row))

    @property
    def full(self) -> bool:
        """Whether no more faults are recorded, so that reading on is useless."""
        return len(self._found) >= self._most

    def check(self) -> None:
        """Raise an `InputError` that lists the recorded faults, if there are any."""
        rows: dict[str, list[int]] = {}
        for fault, row in self._found:
            rows.setdefault(fault, []).extend([] if row is None else [row])
        said = [_places(found, self.full) + fault for fault, found in rows.items()]
        if len(self._found) == 1:
            raise InputError(f"{self.path}: {said[0]}")
        if said:
            first = "the first " if self.full else ""
            raise InputError("\n  ".join([f"{self.path}: {first}{len(self._found)} problems", *said]))


def _places(rows: Sequence[int], full: bool) -> str:
    """The numbers of rows that share a fault, as text before it. `full`: later rows, not read, may share it."""
    if len(rows) < 2:
        return "".join(f"row {row}, " for row in rows)
    more = f" and {'at least ' if full else ''}{len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"rows {', '.join(map(str, rows[:_NAMED]))}{more}, "
