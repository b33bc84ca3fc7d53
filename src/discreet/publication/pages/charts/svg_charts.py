"""The charts of the report: small inline SVGs that take their colours and font from the page around them.

Matplotlib is imported on first use, through its object interface; its global settings are left as they were.
Equal input gives equal text.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from discreet.core.rounding import places_up, rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 400, 250
LEFT = 0.115
"""The left margin of a chart, a part of its width."""

_MARGINS = {"left": LEFT, "right": 0.955, "bottom": 0.2, "top": 0.95}

INK, MUTED, RULE, ACCENT = "#010101", "#020202", "#030303", "#040404"
"""Placeholder colours that no chart uses otherwise; each becomes a variable of the page."""

_VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", ACCENT: "var(--accent)"}

BAND = 0.16

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 12.5,
    "text.parse_math": False,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 8,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True, slots=True)
class Prefix:
    """The epsilon of the first `step` steps of a plan lies in [lower, upper]; `lower` where one is known."""

    step: int
    upper: float
    lower: float | None


def epsilon_chart(prefixes: Sequence[Prefix], final: str, charged: int | None = None) -> str:
    """Epsilon of the first k steps over k; the last point bears the label `final`.

    The band below the line reaches down to the lower bound. `charged` marks where a run ended early.
    """
    steps = [prefix.step for prefix in prefixes]
    upper = [prefix.upper for prefix in prefixes]
    lower = [prefix.upper if prefix.lower is None else prefix.lower for prefix in prefixes]

    def draw(axes: Axes) -> None:
        axes.fill_between(steps, lower, upper, color=ACCENT, alpha=2 * BAND, linewidth=0)
        axes.plot(steps, upper, color=ACCENT, marker="o", markersize=3.5, clip_on=False)
        axes.set_xlim(0, steps[-1])
        axes.set_ylim(0, (upper[-1] or 1.0) * 1.2)
        _last_value(axes, steps[-1], upper[-1], final)
        if charged is not None:
            axes.axvline(charged, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
            axes.text(charged, axes.get_ylim()[1] * 0.03, " run ended ", color=MUTED, ha=_side(charged, steps[-1]))
        axes.set_xlabel("steps")

    about = f"Rises from {rounded_up(upper[0], 3)} after step {steps[0]} to {final} after step {steps[-1]}."
    return svg("epsilon", "Epsilon of the first steps of the plan", about, draw)


def noise_chart(phases: Sequence[tuple[float, int]]) -> str:
    """The noise multiplier over the steps, from (multiplier, steps) in order."""
    multipliers = [multiplier for multiplier, _ in phases]
    first, last = f"{multipliers[0]:.4g}", f"{multipliers[-1]:.4g}"
    about = f"Starts at {first} and ends at {last}."
    if len(set(multipliers)) == 1:
        about = f"The same in every step: {first}."
    return svg("noise", "Noise multiplier over the steps", about, _stairs(phases, last))


def spent_chart(points: Sequence[tuple[int, float]]) -> str:
    """The part of a filter's budget that is spent over what was charged, from (charged, part) in order."""
    charged, parts = [point[0] for point in points], [point[1] for point in points]

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import PercentFormatter

        axes.fill_between(charged, 0, parts, color=ACCENT, alpha=BAND, linewidth=0)
        axes.plot(charged, parts, color=ACCENT, clip_on=False)
        axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_xlim(0, charged[-1])
        axes.set_ylim(0, 1.2)
        axes.set_yticks([0, 0.5, 1])
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.annotate(
            f"{places_up(100 * parts[-1], 1)}%",
            (charged[-1], parts[-1]),
            (-4, 7 if parts[-1] < 0.5 else -34),  # clear of the axis below, and of the limit above
            textcoords="offset points",
            color=INK,
            ha="right",
        )
        axes.set_xlabel("charged steps")

    about = f"Rises to {places_up(100 * parts[-1], 1)}% after {charged[-1]} charged steps."
    return svg("spent", "Part of the filter's budget that is spent", about, draw)


def batch_chart(phases: Sequence[tuple[float, int]]) -> str:
    """The expected batch over the steps, from (batch, steps) in order."""
    first, last = f"{phases[0][0]:.6g}", f"{phases[-1][0]:.6g}"
    about = f"Starts at {first}, ends at {last}."
    return svg("batch", "Expected batch over the steps", about, _stairs(phases, last))


def accuracy_chart(steps: Sequence[int], accuracies: Sequence[float]) -> str:
    """Accuracy on public data over the steps; accuracies in [0, 1], shown in percent."""
    lowest = max(0.0, min(accuracies) - 0.05)

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import PercentFormatter

        axes.plot(steps, accuracies, color=ACCENT, marker="o", markersize=3.5, clip_on=False)
        axes.set_xlim(0, steps[-1])
        highest = max(*accuracies, lowest + 0.05)  # an axis needs a length where every accuracy is zero
        axes.set_ylim(lowest, highest + 0.2 * (highest - lowest))
        axes.set_yticks([tick for tick in axes.get_yticks() if lowest <= tick <= 1])
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _last_value(axes, steps[-1], accuracies[-1], f"{accuracies[-1]:.1%}")
        axes.set_xlabel("steps")

    about = f"Goes from {accuracies[0]:.1%} after step {steps[0]} to {accuracies[-1]:.1%} after step {steps[-1]}."
    return svg("accuracy", "Accuracy on public data over the steps", about, draw)


def tradeoff_chart(shares: Sequence[float], best: Sequence[float], budget: Sequence[float] | None, about: str) -> str:
    """The most true positives of a membership attack over its false positives, and the diagonal of guessing.

    `best` and `budget` are true positives at `shares`; `budget`, where it is given, is what epsilon and delta alone
    would leave possible, and lies above.
    """

    def draw(axes: Axes) -> None:
        axes.fill_between(shares, shares, best, color=ACCENT, alpha=BAND, linewidth=0)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        if budget is not None:
            axes.plot(shares, budget, color=MUTED, linewidth=1.5, linestyle=(0, (1.2, 1.8)), clip_on=False)
        axes.plot(shares, best, color=ACCENT, clip_on=False)
        beside = 1.0 if budget is None else 1.3  # to the right of the dotted line's corner
        middle = min(range(len(shares)), key=lambda i: abs(shares[i] + best[i] - beside))
        at, near = (shares[middle], best[middle]), best[middle] - shares[middle] < 0.3
        if near and budget is not None:  # no room between the lines: from below, by a line of its own
            line = {"arrowstyle": "-", "color": ACCENT, "linewidth": 0.8, "shrinkB": 0}
            axes.annotate("best attack", at, (0.5, 0.16), color=ACCENT, arrowprops=line)
        else:
            place, side = ((-6, 5), "right") if near else ((9, -16), "left")
            axes.annotate("best attack", at, place, textcoords="offset points", color=ACCENT, ha=side)
        axes.annotate("guessing", (0.72, 0.72), (6, -14), textcoords="offset points", color=MUTED)
        in_shares(axes)
        axes.set_xlabel("false positives")

    return svg("tradeoff", "Best true positives of a membership attack, by false positives", about, draw)


def in_shares(axes: Axes) -> None:
    """Let both axes run from 0 to 1, in percent."""
    from matplotlib.ticker import PercentFormatter

    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([0, 0.25, 0.5, 0.75, 1])
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _stairs(phases: Sequence[tuple[float, int]], final: str) -> Callable[[Axes], None]:
    """What draws (value, steps) in order over the steps; the last value bears the label `final`."""
    values, edges = [value for value, _ in phases], [0, *accumulate(count for _, count in phases)]

    def draw(axes: Axes) -> None:
        axes.stairs(values, edges, baseline=None, color=ACCENT, linewidth=2, clip_on=False)
        axes.set_xlim(0, edges[-1])
        axes.set_ylim(0, max(values) * 1.2)
        _last_value(axes, edges[-1], values[-1], final, below=values[-1] < values[0])
        axes.set_xlabel("steps")

    return draw


def _last_value(axes: Axes, x: float, y: float, text: str, *, below: bool = False) -> None:
    axes.annotate(
        text, (x, y), (0, -18 if below else 7), textcoords="offset points", color=INK, ha="right", fontsize=14
    )


def _side(step: float, steps: float) -> str:
    return "left" if step < steps / 2 else "right"


def svg(name: str, title: str, about: str, draw: Callable[[Axes], None], *, left: float = LEFT) -> str:
    """Draw one chart and return it as an accessible element `<svg role="img">`. `left`: the margin, a part of 1."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    buffer = io.StringIO()
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS | {"svg.hashsalt": f"discreet-{name}"})
        figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
        FigureCanvasSVG(figure)
        figure.subplots_adjust(**_MARGINS | {"left": left})
        axes = figure.add_subplot()
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=name != "tradeoff"))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        draw(axes)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), name, title, about)


def _inline(document: str, name: str, title: str, about: str) -> str:
    """The SVG element of a document with the page's colours and font, no address and no identifier but its own."""
    body = re.sub(r"<metadata>.*?</metadata>", "", document[document.index("<svg") :], flags=re.DOTALL)
    body = body[body.index(">") + 1 :].replace("xlink:href", "href")
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r"font-family: [^;\"]*;?\s*", "", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, variable)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="{name}-title {name}-about">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-about">{html.escape(about)}</desc>{body.strip()}'
    )
