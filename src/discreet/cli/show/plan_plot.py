"""The picture of `discreet plan`: noise over time and epsilon over time, one above the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli.show.picture_files import blank, save
from discreet.core.rounding import delta_up, rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACCENT, _MUTED = "#0b5394", "#55606d"


def draw(path: Path, facts: Mapping[str, Any]) -> None:
    """Write the picture. An adaptive plan shows its start, because its policy's choices are not known yet."""
    changing = len(facts.get("batches", ())) > 1
    figure = blank(7.2, 9.2 if changing else 6.4)
    above, *between, below = figure.subplots(3 if changing else 2, 1, sharex=True)
    _noise(above, facts)
    for axes in between:
        _stairs(axes, facts["batches"], "Expected batch")
    if "filter" in facts:
        _reach(below, facts)
    elif "spent" in facts:
        _spent(below, facts["spent"], facts["spent_title"], facts["budget"])
    else:
        _epsilon(below, facts)
    below.set_xlabel(facts.get("over", "steps"))
    for axes in (above, *between, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#d9dee4", linewidth=0.8)
        axes.set_axisbelow(True)
    save(figure, path, dpi=150)


def _noise(axes: Axes, facts: Mapping[str, Any]) -> None:
    if "filter" in facts:
        _stairs(axes, facts["noise"], "Noise multiplier at the start; the policy decides from there", (0, (4, 3)))
    else:
        _stairs(axes, facts["noise"], "Noise multiplier")


def _stairs(axes: Axes, phases: Sequence[Sequence[float]], title: str, style: Any = "-") -> None:
    """(value, steps) in order."""
    values, edges = [phase[0] for phase in phases], [0, *accumulate(phase[1] for phase in phases)]
    axes.stairs(values, edges, baseline=None, color=_ACCENT, linewidth=2, linestyle=style)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, 1.15 * max(values))
    axes.set_title(title, loc="left", fontsize=11)


def _epsilon(axes: Axes, facts: Mapping[str, Any]) -> None:
    points = facts["epsilon_over_steps"]
    title = f"Epsilon of the first steps, at most, at delta {delta_up(facts['delta'])}"
    if points:
        _spent(axes, points, title, None)
        return
    axes.set_title(title, loc="left", fontsize=11)
    axes.text(0.5, 0.5, "nothing is proved", transform=axes.transAxes, ha="center", color=_MUTED)


def _spent(axes: Axes, points: Sequence[Sequence[float]], title: str, budget: float | None) -> None:
    """Draw (steps, upper bound of their cost), and the budget if there is one."""
    axes.set_title(title, loc="left", fontsize=11)
    if budget is not None:
        axes.axhline(budget, color=_MUTED, linewidth=1, linestyle=(0, (1.2, 1.6)))
        axes.annotate(f"budget {budget:g}", (0, budget), (4, -4), textcoords="offset points", color=_MUTED, va="top")
    axes.plot([0, *(p[0] for p in points)], [0, *(p[1] for p in points)], color=_ACCENT, marker="o", markersize=3.5)
    axes.set_ylim(0, 1.15 * max(points[-1][1], budget or 0.0))
    end, spent = points[-1]
    height = spent if budget is None else max(spent, budget)  # not on the line of the budget
    axes.annotate(rounded_up(spent, 4), (end, height), (0, 6), textcoords="offset points", ha="right")


def _reach(axes: Axes, facts: Mapping[str, Any]) -> None:
    """Draw how the filter fills up if the policy changes nothing."""
    from matplotlib.ticker import PercentFormatter

    end = max(1, min(facts["most_steps"], facts["steps_as_it_starts"]))
    part = end / max(1, facts["steps_as_it_starts"])
    axes.plot([0, end], [0, part], color=_ACCENT, linewidth=2, linestyle=(0, (4, 3)))
    axes.axhline(1, color=_MUTED, linewidth=1, linestyle=(0, (1.2, 1.6)))
    axes.annotate("the filter refuses what would go beyond", (0, 1), (4, 4), textcoords="offset points", color=_MUTED)
    axes.set_ylim(0, 1.2)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_title(
        f"Part of the budget spent, if nothing changes (all of it: epsilon {rounded_up(facts['epsilon'], 4)})",
        loc="left",
        fontsize=11,
    )
