"""Panels of named figures, one below the other: means with their range, and ratios. Loads matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes

from discreet_papers.pages.pictures import Bar, Panel

_LARGE, _OPEN, _SMALL = "#0b5394", "#8a8a8a", "#c0392b"
_TICKS = (
    (0.01, 0.1, 1, 10),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
    (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10),
    (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.2),
)
"""Ticks from coarse to fine; the first list with four visible ticks is used."""


def intervals(axes: Axes, panel: Panel) -> None:
    """Each mean as a dot, with a line from its least to its largest run, and the paper's figure as a bar."""
    several = any(bar.low < bar.high for bar in panel.bars)
    for place, bar in enumerate(panel.bars):
        axes.plot([bar.low, bar.high], [place, place], color="#9fc5e8", linewidth=5, solid_capstyle="butt", zorder=2)
        axes.plot([bar.height], [place], color=_LARGE, marker="o", markersize=5, linestyle="none", zorder=3)
        if bar.printed is not None:
            axes.plot([bar.printed], [place], color=_SMALL, marker="|", markersize=12, markeredgewidth=2, zorder=4)
    axes.plot([], [], color=_LARGE, marker="o", markersize=5, linestyle="none", label="mean" if several else "one run")
    if several:
        axes.plot([], [], color="#9fc5e8", linewidth=5, label="least to most of the runs")
    if any(bar.printed is not None for bar in panel.bars):
        axes.plot(
            [], [], color=_SMALL, marker="|", markersize=10, markeredgewidth=2, linestyle="none", label=panel.marks
        )
    _names(axes, panel.bars, 8)
    axes.margins(x=0.05)
    _legend_above(axes)


def ratios(axes: Axes, panel: Panel) -> None:
    """Ratios of figures to the printed ones, on a logarithmic axis."""
    for place, bar in enumerate(panel.bars):
        colour = _LARGE if bar.height <= 1 else _SMALL if bar.low > 1 else _OPEN
        axes.plot([bar.low, bar.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([bar.height], [place], color=colour, marker="o", markersize=4, linestyle="none")
    axes.axvline(1, color="#333333", linewidth=1)
    ends = min(bar.low for bar in panel.bars) / 1.15, 1.15 * max(1.0, *(bar.high for bar in panel.bars))
    seen = [[at for at in ticks if ends[0] <= at <= ends[1]] for ticks in _TICKS]
    ticks = next((some for some in seen if len(some) >= 4), max(seen, key=len))
    axes.set_xscale("log")
    axes.set_xlim(*ends)
    axes.set_xticks(ticks, [f"{at:g}" for at in ticks])
    axes.set_xticks([], minor=True)
    names = {_LARGE: "printed is large enough", _OPEN: "not settled", _SMALL: "printed is too small"}
    there = {line.get_color() for line in axes.lines}
    for colour, name in names.items():
        if colour in there:
            axes.plot([], [], color=colour, marker="o", markersize=4, linewidth=1.5, label=name)
    _names(axes, panel.bars, 7)
    _legend_above(axes)


def _names(axes: Axes, bars: Sequence[Bar], size: int) -> None:
    """In at most two lines each."""
    axes.set_yticks(range(len(bars)), ["\n".join(textwrap.wrap(bar.label, 58)) for bar in bars], fontsize=size)
    axes.set_ylim(len(bars) - 0.4, -0.6)


def _legend_above(axes: Axes) -> None:
    """Between the title and the axes, where nothing is drawn."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize=8, borderaxespad=0.0)
