"""Draws panels as a picture. Loads matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from discreet_papers.pages.bars import intervals, ratios
from discreet_papers.pages.pictures import Line, Panel

_COLOURS = ("#0b5394", "#c0392b", "#7a6a00", "#38761d", "#674ea7", "#45818e", "#b45f06", "#5b5b5b")
_ROLES = {
    "pld": "#0b5394",
    "rdp": "#3d85c6",
    "gdp": "#134f5c",
    "clt": "#c0392b",
    "moments": "#7a6a00",
    "zcdp": "#45818e",
    "zcdp-rs": "#e67e22",
    "zcdp-rf": "#8e44ad",
    "strong": "#a64d79",
    "adadp": "#5b5b5b",
    "dropout-ac": "#b45f06",
    "dropout-zcdp": "#38761d",
    "doubling": "#c0392b",
    "renyi": "#0b5394",
}
_STYLES = {"solid": "-", "dashed": "--", "dotted": ":", "marks": "none"}
_WHOLE = ("epoch", "step")
"""Horizontal axes that count."""

_MOST_INSIDE = 6
"""The legend of a panel with more lines stands below its axes."""


def draw(panels: Sequence[Panel], path: Path, columns: int) -> None:
    """Write a PNG with the panels in a grid. Where all have the same lines, one legend is for all of them."""
    across = min(columns, len(panels))
    down = math.ceil(len(panels) / across)
    heights = [_height(panels[across * row : across * (row + 1)]) for row in range(down)]
    wide = 9.0 if across == 1 and any(panel.bars for panel in panels) else 4.6
    common = _one_legend(panels)
    lines = _legend_lines(panels[0].lines, wide * across) if common else 0
    figure = Figure(figsize=(wide * across, sum(heights) + 0.3 * lines), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(down, across, height_ratios=heights)
    for place, panel in enumerate(panels):
        row, column = divmod(place, across)
        last = place == len(panels) - 1 and bool(panel.bars)
        axes = figure.add_subplot(grid[row, column:] if last else grid[row, column])
        _fill(axes, panel, legend=not common)
    if common:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        side = math.ceil(len(labels) / lines)
        figure.legend(handles, labels, loc="outside lower center", ncols=side, frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Software": None})


def _one_legend(panels: Sequence[Panel]) -> bool:
    labels = {tuple(line.label for line in panel.lines) for panel in panels}
    return len(panels) > 1 and len(labels) == 1 and len(next(iter(labels))) > 1


def _legend_lines(lines: Sequence[Line], inches: float) -> int:
    """Number of lines of a legend; a marker takes 0.8 inches, a letter 0.075."""
    return math.ceil(sum(0.8 + 0.075 * len(line.label) for line in lines) / inches)


def _height(panels: Sequence[Panel]) -> float:
    """Inches of a row, without a common legend."""
    below = max(0.17 * len(panel.lines) if len(panel.lines) > _MOST_INSIDE else 0.0 for panel in panels)
    return below + max(0.28 * len(panel.bars) + 1.3 if panel.bars else 3.6 for panel in panels)


def _fill(axes: Axes, panel: Panel, *, legend: bool) -> None:
    for line, colour, marker in _looks(panel.lines):
        _line(axes, line, colour, marker)
    if panel.bars:
        (ratios if "x" in panel.log else intervals)(axes, panel)
    elif "x" in panel.log:
        _logarithmic(axes, "x", [at for line in panel.lines for at in line.x])
    elif panel.x in _WHOLE:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10], integer=True))
    highest = max((max(line.y) for line in panel.lines if len(line.y)), default=math.inf)
    if "y" in panel.log:
        lowest = panel.bottom or min((value for line in panel.lines for value in line.y if value > 0), default=1.0)
        _logarithmic(axes, "y", [lowest, highest])
    if panel.bottom is not None and panel.bottom < highest and ("y" not in panel.log or panel.bottom > 0):
        axes.set_ylim(bottom=panel.bottom)  # not above all lines, as in a quick run
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title, loc="left", fontsize=10, pad=20 if panel.bars else None)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and panel.lines and (len(panel.lines) > 1 or panel.lines[0].label):
        if len(panel.lines) > _MOST_INSIDE:
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, -0.14))
        else:
            axes.legend(frameon=False, fontsize=8)


def _logarithmic(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Plain numbers on an axis of up to three decades, powers of ten on a longer one."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    if max(values) < 1000 * min(values):
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _looks(lines: Sequence[Line]) -> list[tuple[Line, str, str]]:
    """Colour and marker of each. A role has one colour; its second line in one style is lighter, in squares."""
    found: list[tuple[Line, str, str]] = []
    own: dict[str, str] = {}
    drawn: set[tuple[str, str]] = set()
    for place, line in enumerate(lines):
        if line.style == "marks":
            found.append((line, "#333333", "x"))
            continue
        key = line.role or f"line {place}"
        if key not in _ROLES and key not in own:
            own[key] = _COLOURS[len(own) % len(_COLOURS)]
        colour = _ROLES.get(key) or own[key]
        again = (key, line.style) in drawn
        drawn.add((key, line.style))
        found.append((line, _lighter(colour) if again else colour, "s" if again else "o"))
    return found


def _lighter(colour: str) -> str:
    red, green, blue = (round(255 * (0.5 + 0.5 * part)) for part in to_rgb(colour))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _line(axes: Axes, line: Line, colour: str, marker: str) -> None:
    few = 2 < len(line.x) < 14 and not line.steps
    axes.plot(
        line.x,
        line.y,
        color=colour,
        linestyle=_STYLES[line.style],
        marker=marker if line.style == "marks" or few else None,
        markersize=6 if line.style == "marks" else 3,
        markeredgewidth=1.6 if line.style == "marks" else None,
        linewidth=1.5,
        drawstyle="steps-post" if line.steps else "default",
        zorder=5 if line.style == "marks" else None,
        label=line.label,
    )
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
