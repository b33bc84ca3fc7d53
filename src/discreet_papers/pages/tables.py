"""Tables as values, and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.rounding import rounded_down, rounded_up

MISSING = "-"
"""The text of a cell that was not measured yet."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head, with `notes` below, one paragraph each."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table with its title and notes."""
        lines = [f"**{self.title}**\n"] if self.title else []
        lines += [_row(self.head), "|" + "---|" * len(self.head), *map(_row, self.rows)]
        return "\n".join(lines + [f"\n{note}" for note in self.notes])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def up(value: float | None) -> str:
    """Five significant digits, rounded up."""
    return MISSING if value is None else rounded_up(value)


def interval(result: Mapping[str, Any]) -> str:
    """The certified epsilon, with its lower bound if one is known."""
    upper, lower = result.get("epsilon"), result.get("lower")
    if upper is None:
        return MISSING
    return f"{'at most ' if lower is None else f'{rounded_down(lower)} to '}{up(upper)}"


def number(value: float | None) -> str:
    """A paper's figure, or one that is no bound, to four significant digits."""
    if value is None:
        return MISSING
    return str(value) if not math.isfinite(value) else f"{value:.4g}"
