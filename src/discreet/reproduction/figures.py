"""Panels as a picture. Loads matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.reproduction.pictures import Bar, Line, Panel

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


def draw(panels: Sequence[Panel], path: Path, columns: int) -> None:
    """Write a PNG with the panels in a grid."""
    across = min(columns, len(panels))
    down = math.ceil(len(panels) / across)
    heights = [_height(panels[across * row : across * (row + 1)]) for row in range(down)]
    wide = 9.0 if across == 1 and any(panel.bars for panel in panels) else 4.6
    figure = Figure(figsize=(wide * across, sum(heights)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(down, across, squeeze=False, gridspec_kw={"height_ratios": heights}).ravel()
    for axes, panel in zip(places, panels, strict=False):
        _fill(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.savefig(path, metadata={"Software": None})


def _height(panels: Sequence[Panel]) -> float:
    """Inches of a row."""
    return max(0.26 * len(panel.bars) + 1.1 if panel.bars else 3.6 for panel in panels)


def _fill(axes: Axes, panel: Panel) -> None:
    own = 0
    for line in panel.lines:
        colour = _ROLES.get(line.role) or _COLOURS[own % len(_COLOURS)]
        if line.style == "marks":
            colour = "#333333"
        elif line.role not in _ROLES:
            own += 1
        _line(axes, line, colour)
    if panel.bars:
        (_ratios if "x" in panel.log else _bars)(axes, panel.bars)
    if "x" in panel.log and not panel.bars:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    highest = max((max(line.y) for line in panel.lines if len(line.y)), default=math.inf)
    if panel.bottom is not None and panel.bottom < highest and ("y" not in panel.log or panel.bottom > 0):
        axes.set_ylim(bottom=panel.bottom)  # not above all lines, as in a quick run
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(panel.lines) > 1 or any(line.style == "marks" for line in panel.lines):
        axes.legend(frameon=False, fontsize=8)


def _line(axes: Axes, line: Line, colour: str) -> None:
    axes.plot(
        line.x,
        line.y,
        color=colour,
        linestyle=_STYLES[line.style],
        marker="x" if line.style == "marks" else "o" if 2 < len(line.x) < 14 and not line.steps else None,
        markersize=5 if line.style == "marks" else 2.8,
        linewidth=1.5,
        drawstyle="steps-post" if line.steps else "default",
        label=line.label,
    )
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)


def _bars(axes: Axes, bars: Sequence[Bar]) -> None:
    places = range(len(bars))
    least = min(min(bar.low, bar.height if bar.printed is None else bar.printed) for bar in bars)
    axes.barh(places, [bar.height for bar in bars], color="#9fc5e8", height=0.66)
    for place, bar in zip(places, bars, strict=True):
        axes.plot([bar.low, bar.high], [place, place], color="#0b5394", linewidth=2)
        if bar.printed is not None:
            axes.plot([bar.printed], [place], color="#c0392b", marker="D", markersize=5, linestyle="none")
    axes.set_yticks(list(places), [bar.label for bar in bars], fontsize=8)
    axes.invert_yaxis()
    top = max(max(bar.high, bar.height if bar.printed is None else bar.printed) for bar in bars)
    axes.set_xlim(least - 0.15 * (top - least) if least < top else None, top + 0.05 * (top - least or 1))


def _ratios(axes: Axes, bars: Sequence[Bar]) -> None:
    """How far a figure is from the one that is printed, on a logarithmic axis."""
    places = range(len(bars))
    for place, bar in zip(places, bars, strict=True):
        colour = "#0b5394" if bar.height <= 1 else "#c0392b"
        axes.plot([bar.low, bar.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([bar.height], [place], color=colour, marker="o", markersize=4, linestyle="none")
    axes.axvline(1, color="#333333", linewidth=1)
    ends = min(bar.low for bar in bars) / 1.15, 1.15 * max(1.0, *(bar.high for bar in bars))
    ticks = [at for at in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 5, 10, 20) if ends[0] <= at <= ends[1]]
    axes.set_xscale("log")
    axes.set_xlim(*ends)
    axes.set_xticks(ticks, [f"{at:g}" for at in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(list(places), [bar.label for bar in bars], fontsize=7)
    axes.invert_yaxis()
