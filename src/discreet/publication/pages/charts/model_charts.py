"""Charts of a model's behaviour on public rows, from model.json."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from discreet.certificate.described import Bin, Cut, Effect, OnPublicRows, Weight
from discreet.publication.pages.charts.svg_charts import ACCENT, BAND, LEFT, MUTED, in_shares, svg
from discreet.publication.pages.public_evaluation import wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption, and a note on how to read it."""

    caption: str
    note: str
    chart: Markup


def figures(seen: OnPublicRows | None) -> list[Figure]:
    """The charts with figures in `seen`; none without public rows."""
    return [] if seen is None else list(_figures(seen))


def _figures(seen: OnPublicRows) -> Iterator[Figure]:
    band = "The band is the 95% interval of each point by itself."
    if seen.cuts and seen.cuts[-1].found and seen.cuts[-1].false:
        name = seen.positive or "positive"
        note = f"Share of {name} that is found, over the share of others taken for it. {band}"
        yield Figure("ROC curve", note, Markup(_roc(seen.cuts)))
        note = f"Share of rows taken for {name} that are, over the share of {name} that is found. {band}"
        yield Figure("Precision and recall", note, Markup(_precision(seen.cuts)))
    if seen.bins:
        what = f"of {seen.positive}" if seen.positive is not None else "of the likeliest class"
        note = f"How often it was true, over the probability {what} that was given; on the diagonal, as often as said."
        yield Figure("Calibration", note, Markup(_calibration(seen.bins)))
    if seen.weights:
        worse = "area under the ROC curve lost" if seen.score == "auroc" else "growth of the root mean squared error"
        note = f"The {worse} when the values of a column are shuffled, and its deviation over five shuffles."
        yield Figure("What the answers rest on", note, Markup(_weights(seen.weights[:_MOST_COLUMNS])))
    for place, effect in enumerate(seen.effects):
        if effect.values and len(effect.values) == len(effect.answers):
            answer = "probability of " + seen.positive if seen.positive is not None else "answer"
            note = f"The mean {answer} over public rows, if all of them had that {effect.column}."
            yield Figure(f"Effect of {effect.column}", note, Markup(_effect(effect, place)))


def _roc(cuts: Sequence[Cut]) -> str:
    positives, others = cuts[-1].found, cuts[-1].false
    false = [0.0, *(cut.false / others for cut in cuts)]
    true = [0.0, *(min(1.0, cut.found / positives) for cut in cuts)]
    bands = [wilson(min(found, positives), positives) for found in (0, *(cut.found for cut in cuts))]

    def draw(axes: Axes) -> None:
        axes.fill_between(false, [low for low, _ in bands], [high for _, high in bands], color=ACCENT, alpha=BAND, lw=0)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot(false, true, color=ACCENT, clip_on=False)
        in_shares(axes)
        axes.set_xlabel("false positives")

    return svg("roc", "ROC curve on public rows", f"{len(cuts)} thresholds on {positives + others} rows.", draw)


def _precision(cuts: Sequence[Cut]) -> str:
    positives, others = cuts[-1].found, cuts[-1].false
    kept = [cut for cut in cuts if cut.found + cut.false and cut.found <= positives]
    recall = [cut.found / positives for cut in kept]
    bands = [wilson(cut.found, cut.found + cut.false) for cut in kept]

    def draw(axes: Axes) -> None:
        low, high = [one for one, _ in bands], [one for _, one in bands]
        axes.fill_between(recall, low, high, color=ACCENT, alpha=BAND, linewidth=0)
        axes.axhline(positives / (positives + others), color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot(recall, [cut.found / (cut.found + cut.false) for cut in kept], color=ACCENT, clip_on=False)
        in_shares(axes)
        axes.set_xlabel("recall")

    about = f"With every row taken, precision is {positives / (positives + others):.1%}."
    return svg("precision", "Precision over recall on public rows", about, draw)


def _calibration(bins: Sequence[Bin]) -> str:
    said = [one.said for one in bins]
    shares = [min(1.0, one.true / one.rows) for one in bins]
    bands = [wilson(min(one.true, one.rows), one.rows) for one in bins]

    def draw(axes: Axes) -> None:
        reach = [[share - low for share, (low, _) in zip(shares, bands, strict=True)]]
        reach.append([high - share for share, (_, high) in zip(shares, bands, strict=True)])
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        reach = [[max(0.0, one) for one in side] for side in reach]
        axes.errorbar(said, shares, yerr=reach, color=ACCENT, marker="o", markersize=3.5, elinewidth=1, clip_on=False)
        in_shares(axes)
        axes.set_xlabel("probability that the model gave")

    rows = sum(one.rows for one in bins)
    return svg("calibration", "Calibration on public rows", f"{len(bins)} groups of {rows} rows.", draw)


def _weights(weights: Sequence[Weight]) -> str:
    def draw(axes: Axes) -> None:
        places = range(len(weights))[::-1]
        losses, reach = [one.loss for one in weights], [one.deviation for one in weights]
        axes.barh(places, losses, xerr=reach, height=0.6, color=ACCENT, ecolor=MUTED)
        axes.set_yticks(list(places), [_short(one.column) for one in weights])
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")

    about = ", ".join(f"{one.column}: {one.loss:.3g}" for one in weights)
    return svg("weights", "Loss of the score with a column shuffled", about, draw, left=0.34)


def _effect(effect: Effect, place: int) -> str:
    texts = [value for value in effect.values if isinstance(value, str)]
    apart = not all(map(_is_day, texts))
    low, high = min(effect.answers), max(effect.answers)
    room = (high - low) / 5 or abs(high) / 5 or 1.0

    def categories(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        places = list(range(len(effect.values)))[::-1]
        axes.plot(effect.answers, places, color=ACCENT, marker="o", markersize=7, linestyle="", clip_on=False)
        axes.set_yticks(places, [_short(str(value)) for value in effect.values])
        axes.set_ylim(-0.6, len(places) - 0.4)
        axes.set_xlim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(4))

    def course(axes: Axes) -> None:
        places = range(len(texts)) if texts else [float(value) for value in effect.values]
        axes.plot(places, effect.answers, color=ACCENT, clip_on=False)
        if texts:
            step = -(-len(texts) // 4)
            axes.set_xticks(list(places)[::step], texts[::step])
        axes.set_ylim(low - room, high + room)
        axes.set_xlabel(_short(effect.column, 40))

    about = f"From {low:.4g} to {high:.4g}."
    draw, left = (categories, 0.34) if apart else (course, LEFT)
    return svg(f"effect{place}", f"Mean answer over {effect.column}", about, draw, left=left)


def _is_day(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _short(text: str, most: int = 18) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
