"""Values for pictures: lines and bars in panels. `figures` draws them."""

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


def printed_marks(points: Sequence[tuple[float, float]]) -> list[Line]:
    """The points that the paper prints, as marks; no line where it prints none."""
    if not points:
        return []
    x, y = zip(*points, strict=True)
    return [Line("printed", x, y, "marks")]


@dataclass(frozen=True, slots=True)
class Bar:
    """A height with its least and largest value, and the paper's figure."""

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
    """The start of the vertical axis; by default that of the lines."""
    marks: str = "printed"
    """The meaning of the marks beside bars."""
    caption: str = ""
    """Text below the picture; equal captions of several panels appear once."""
