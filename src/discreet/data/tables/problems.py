"""Faults of the rows of a table, gathered over one pass so that somebody can mend them at once."""

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
        """Note a fault, unless there are many already."""
        if not self.full:
            self._found.append(fault)

    @property
    def full(self) -> bool:
        """Whether no more are noted, so that reading on tells nothing."""
        return len(self._found) >= self._most

    def check(self) -> None:
        """`InputError` that lists what was noted."""
        if len(self._found) == 1:
            raise InputError(f"{self.path}: {self._found[0]}")
        if self._found:
            first = "the first " if self.full else ""
            raise InputError("\n  ".join([f"{self.path}: {first}{len(self._found)} problems", *self._found]))
