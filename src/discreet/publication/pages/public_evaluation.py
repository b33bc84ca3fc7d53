"""Metrics on public rows as pages show them: figures, and for classes the predictions on the rows of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from discreet.core.metric_names import RECALL, ROWS, no_better, rows_name

_95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal law."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A class: counts of its rows by predicted class, and its recall (`share`) with Wilson's 95 % interval."""

    name: str
    said: tuple[int, ...]
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Shown:
    """`figures` by name; `classes` with their rows, empty if they were not counted. `useless`: the model is no better
    than one answer for all rows."""

    figures: dict[str, float]
    classes: tuple[Recall, ...]
    useless: bool


def shown(metrics: Mapping[str, float]) -> Shown:
    """The parts of an evaluation that pages show."""
    figures = {name: value for name, value in metrics.items() if not name.startswith((RECALL, ROWS))}
    names = [name.removeprefix(RECALL) for name in metrics if name.startswith(RECALL)]
    classes = [_recall(metrics, name, names) for name in names]
    known = tuple(one for one in classes if one is not None)
    return Shown(figures, known if len(known) == len(names) else (), no_better(metrics))


def wilson(right: int, rows: int) -> tuple[float, float]:
    """The 95 % interval for a share of which `right` of `rows` were seen (Wilson 1927)."""
    share, square = right / rows, _95**2 / rows
    centre = (share + square / 2) / (1 + square)
    reach = _95 / (1 + square) * math.sqrt(share * (1 - share) / rows + square / (4 * rows))
    return max(0.0, centre - reach), min(1.0, centre + reach)


def _recall(metrics: Mapping[str, float], name: str, names: list[str]) -> Recall | None:
    counts = [metrics.get(rows_name(name, other)) for other in names]
    found = [int(count) for count in counts if count is not None]
    if len(found) < len(names) or not sum(found):
        return None
    right, rows = found[names.index(name)], sum(found)
    return Recall(name, tuple(found), right / rows, *wilson(right, rows))
