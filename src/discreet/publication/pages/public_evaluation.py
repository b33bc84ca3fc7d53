"""Metrics on public rows as pages show them: figures, by subgroup too, and for classes the predictions on each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from discreet.core.metric_names import GROUP_ROWS, RECALL, ROWS, any_clipped, groups_in, no_better, rows_name, unit_of

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
class Group:
    """A subgroup: the number of its public rows, and its accuracy (`measure`) with Wilson's 95 % interval; of numbers
    the root mean squared error with its `unit`, without one."""

    name: str
    rows: int
    measure: str
    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """`figures` and their `units` by name; `classes` with their rows, empty if they were not counted. `useless`: the
    model is no better than one answer for all rows. `clipped`: metrics take targets out of range for its end."""

    figures: dict[str, float]
    units: dict[str, str]
    classes: tuple[Recall, ...]
    groups: tuple[Group, ...]
    useless: bool
    clipped: bool


def shown(metrics: Mapping[str, float], targets: Mapping[str, str] = MappingProxyType({})) -> Shown:
    """The parts of an evaluation that pages show. `targets`: what the model predicts, with the kind of each column."""
    groups = tuple(one for name in groups_in(metrics) for one in _groups(metrics, name, targets))
    apart = {f"{one.name}: {one.measure}" for one in groups} | {f"{name}{GROUP_ROWS}" for name in groups_in(metrics)}
    figures = {
        name: value for name, value in metrics.items() if name not in apart and not name.startswith((RECALL, ROWS))
    }
    names = [name.removeprefix(RECALL) for name in metrics if name.startswith(RECALL)]
    classes = [_recall(metrics, name, names) for name in names]
    known = tuple(one for one in classes if one is not None)
    units = {name: unit_of(name, targets) for name in figures}
    return Shown(
        figures, units, known if len(known) == len(names) else (), groups, no_better(metrics), any_clipped(metrics)
    )


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


def _groups(metrics: Mapping[str, float], name: str, targets: Mapping[str, str]) -> Iterator[Group]:
    """A line for a subgroup; of several labels or numbers, one for each."""
    rows = int(metrics[f"{name}{GROUP_ROWS}"])
    for metric, value in metrics.items():
        measure = metric.removeprefix(f"{name}: ")
        if measure == metric:
            continue
        *label, kind = measure.rsplit(": ", 1)
        if kind == "accuracy":
            yield Group(": ".join((name, *label)), rows, kind, value, *wilson(round(value * rows), rows))
        elif kind == "rmse":
            yield Group(": ".join((name, *label)), rows, kind, value, unit=unit_of(metric, targets))
