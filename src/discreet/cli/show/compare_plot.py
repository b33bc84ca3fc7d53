"""The picture of `discreet compare`: epsilon over steps, one labelled line per method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from discreet.accounting.account import Method
from discreet.accounting.answers.compare import Point
from discreet.accounting.theory_table import ESTIMATORS
from discreet.cli.show.picture_files import blank, save
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.rounding import delta_up, rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    Method.PLD: "#0b5394",
    Method.RDP: "#3d85c6",
    Method.GDP: "#134f5c",
    Method.ZCDP: "#45818e",
    Method.ADVANCED: "#6d8fad",
    Method.BASIC: "#9fb3c4",
    Method.CLT: "#c0392b",
    Method.ZCDP_RS: "#e67e22",
    Method.MOMENTS: "#7a6a00",
    Method.ZCDP_RF: "#8e44ad",
    Method.STRONG: "#a64d79",
    Method.ADADP: "#5b5b5b",
    Method.DROPOUT_AC: "#b45f06",
    Method.DROPOUT_ZCDP: "#38761d",
}
_DASHES: dict[str, tuple[float, tuple[float, ...]]] = {
    "guarantee": (0, ()),
    "estimate": (0, (5, 2)),
    "as_published": (0, (1.2, 1.6)),
}
_LEGEND = {"guarantee": "proved", "estimate": "estimate", "as_published": "as published"}
_GAP = 0.048
"""Least distance between labels, as a share of the height of the picture."""
_TALLEST = 3e3
"""A method whose last epsilon is this many times the lowest is not drawn."""
_ADJACENCY = {"add_remove": "add/remove", "zero_out": "zero-out", "replace_one": "replace-one"}


def draw(path: Path, curves: Mapping[Method, Sequence[Point]], delta: float, adjacency: Adjacency) -> None:
    """Write the picture, on a logarithmic axis. What is infinite, or so large that it hides the rest, is left out."""
    lines = {method: _finite(points) for method, points in curves.items()}
    lines = {method: points for method, points in lines.items() if points}
    if not lines:
        raise InputError(f"--plot {path}: no method gives a finite epsilon, so there is nothing to draw")
    least = min(points[-1].epsilon for points in lines.values())
    lines = {method: points for method, points in lines.items() if points[-1].epsilon <= _TALLEST * least}
    figure = blank(8.6, 5.2)
    axes = figure.add_subplot()
    axes.set_yscale("log")
    for method, points in lines.items():
        axes.plot(
            [point.steps for point in points],
            [point.epsilon for point in points],
            color=_COLOURS[method],
            linestyle=_DASHES[kind(method)],
            linewidth=3.2 if method is Method.PLD else 1.7,
            zorder=2 if method is Method.PLD else 3,
        )
    last = max(points[-1].steps for points in lines.values())
    low, high = axes.get_ylim()
    heights = spread([math.log(points[-1].epsilon / low) / math.log(high / low) for points in lines.values()], _GAP)
    for (method, points), height in zip(lines.items(), heights, strict=True):
        axes.annotate(
            f"{method.value}  {rounded_up(points[-1].epsilon, 4)}",
            xy=(last, points[-1].epsilon),
            xytext=(1.035, height),
            textcoords="axes fraction",
            color=_COLOURS[method],
            fontsize=9,
            fontweight="bold" if method is Method.PLD else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": _COLOURS[method],
                "linewidth": 0.6,
                "relpos": (0, 0.5),
                "shrinkA": 2,
                "shrinkB": 0,
            },
        )
    axes.set_ylim(low, high)
    _dress(axes, {kind(method) for method in lines}, last, delta, adjacency)
    save(figure, path)


def _dress(axes: Axes, shown: set[str], last: int, delta: float, adjacency: Adjacency) -> None:
    """Ticks, titles and the legend of line styles."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xlim(0, last * 1.002)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(True, which="major", color="#e3e6ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("steps")
    axes.set_ylabel(f"epsilon at delta = {delta_up(delta)}")
    axes.set_title(f"What each method says about this plan ({_ADJACENCY[adjacency.value]})", loc="left", fontsize=11)
    kinds = [name for name in _LEGEND if name in shown]
    handles = [Line2D([], [], color="#444444", linestyle=_DASHES[name], label=_LEGEND[name]) for name in kinds]
    axes.legend(handles=handles, loc="lower right", frameon=False, fontsize=9)


def kind(method: Method) -> str:
    """guarantee, estimate or as_published."""
    if method.proves:
        return "guarantee"
    return "estimate" if method.value in ESTIMATORS else "as_published"


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels apart to at least `gap`, in their order, with the least sum of squared moves.

    After subtracting i x gap from the i-th height this is isotonic regression: neighbours in the wrong order are pooled
    at their mean.
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    pools: list[list[float]] = []
    for rank, index in enumerate(order):
        pools.append([heights[index] - rank * gap])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [mean(pool) for pool in pools for _ in pool]
    placed = [0.0] * len(heights)
    for rank, index in enumerate(order):
        placed[index] = level[rank] + rank * gap
    return placed


def _finite(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if 0 < point.epsilon < math.inf]
