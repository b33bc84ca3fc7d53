"""What is drawn, as values: lines and bars in panels. `figures` makes pictures of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Style = Literal["solid", "dashed", "dotted", "marks"]


@dataclass(frozen=True, slots=True)
class Line:
    """y over x, with a band from `low` to `high` where there is one. `role` gives it the colour of its method."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Style = "solid"
    role: str = ""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    steps: bool = False
    """Constant between its points."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A height with the least and the most, and what the paper has in its place."""

    label: str
    height: float
    low: float
    high: float
    printed: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    log: Literal["", "x", "y", "xy"] = ""
    bottom: float | None = None
    """Where the vertical axis begins; by default where the lines do."""
    marks: str = "printed"
    """What the marks beside bars are."""
    caption: str = ""
    """What the page says below the picture; the same words of several panels once."""
