"""Faults of the rows of a table, gathered in one pass, so that all can be mended at once."""

from __future__ import annotations

from pathlib import Path

from discreet.core.errors import InputError

MOST = 20


class Problems:
    """The first faults of a table, each one line. They go to the holder of the table, before anything is charged."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path = path
        self._most = most
        self._found: list[str] = []

    def add(self, fault: str) -> None:
        """Record a fault, unless there are many already."""
        if not self.full:
            self._found.append(fault)

    @property
    def full(self) -> bool:
        """Whether no more faults are recorded, so that reading on is useless."""
        return len(self._found) >= self._most

    def check(self) -> None:
        """Raise an `InputError` that lists the recorded faults, if there are any."""
        if len(self._found) == 1:
            raise InputError(f"{self.path}: {self._found[0]}")
        if self._found:
            first = "the first " if self.full else ""
            raise InputError("\n  ".join([f"{self.path}: {first}{len(self._found)} problems", *self._found]))
