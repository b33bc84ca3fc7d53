"""Command lines with some options changed: a command refuses an option that is given twice."""

from __future__ import annotations

from collections.abc import Sequence

_REPEATED = ("--set", "--grid")


def instead(arguments: Sequence[str], *changes: str) -> list[str]:
    """The arguments with options and their values added, in the place of those of the same name."""
    kept = list(arguments)
    for name in changes:
        if name.startswith("--") and name not in _REPEATED and name in kept:
            at = kept.index(name)
            del kept[at : at + 2]
    return [*kept, *changes]
