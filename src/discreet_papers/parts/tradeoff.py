"""Kind `trade_off`: the whole curve of attacks on a course: exact, by the central limit theorem, by moments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from discreet.accounting.account import Method, account
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import TradeOff, from_mu, from_pairs
from discreet.accounting.theories import gdp, paper_figures, rdp
from discreet.core.array_types import Array
from discreet.plan.pydantic_base import Frozen
from discreet_papers.measure.course import Course, course_of
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over
from discreet_papers.parts.epsilon import brief

Shown = Literal["errors", "profile", "power"]
Curves = dict[str, tuple[list[float], list[float]]]

_LABELS = {
    "exact": "exact, proved",
    "clt": "CLT",
    "moments": "all (epsilon, delta) of MA",
    "pair": "one (epsilon, delta) of MA",
}
_ROLES = {"exact": "pld", "clt": "clt", "moments": "moments", "pair": "moments"}
_STYLES: dict[str, Literal["solid", "dashed", "dotted"]] = {
    "exact": "solid",
    "clt": "dashed",
    "moments": "solid",
    "pair": "dotted",
}


class TradeOffRow(Frozen):
    """A course and what is drawn of it; `printed`: the least sum of the two errors, by curve, as the paper has it."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    shows: tuple[Shown, ...] = ("errors",)
    printed: dict[str, float] = Field(default_factory=dict)


class TradeOffPart(Frozen):
    """The kind. `curves` are those of _LABELS; `epsilons`: up to where a profile is drawn."""

    kind: Literal["trade_off"]
    course: dict[str, Any]
    curves: tuple[Literal["exact", "clt", "moments", "pair"], ...] = ("exact", "clt", "moments", "pair")
    epsilons: float = Field(default=9.0, gt=0)
    points: int = Field(default=101, ge=11)
    table: bool = True
    rows: tuple[TradeOffRow, ...] = Field(min_length=1)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each row and each thing that is shown of it."""
        return [Cell(f"{row.name}, {shows}", self._facts(row, shows)) for row in self.rows for shows in row.shows]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The curves on a grid, and the least sums of errors."""
        course, facts = course_of(cell.facts["course"]), cell.facts
        found = _curves(course, facts["curves"])
        if facts["shows"] == "power":
            small = np.logspace(-8, -1, facts["points"])
            ratio = found["exact"].power(small) / found["clt"].power(small)
            return {"x": _rounded(small), "curves": {"exact": _rounded(ratio)}, "sums": _sums(found)}
        if facts["shows"] == "profile":
            grid = np.linspace(0, facts["epsilons"], facts["points"])
            curves = {name: _rounded(curve.delta(grid)) for name, curve in found.items()}
            return {"x": _rounded(grid), "curves": curves, "sums": _sums(found)}
        grid = np.linspace(0, 1, facts["points"]) ** 2
        curves = {name: _rounded(curve.lower(grid)) for name, curve in found.items()}
        return {"x": _rounded(grid), "curves": curves, "sums": _sums(found)}

    def tables(self, results: Results) -> Sequence[Table]:
        """The least sum of the two kinds of error that an attack can reach, curve by curve."""
        if not self.table:
            return ()
        printed = [name for name in self.curves if any(name in row.printed for row in self.rows)]
        head = ["least sum of errors"]
        for name in self.curves:
            head += [_LABELS[name], "printed"] if name in printed else [_LABELS[name]]
        rows = []
        for row in self.rows:
            found = (results.one(self._facts(row, row.shows[0])) or {"sums": {}})["sums"]
            cells = [row.name]
            for name in self.curves:
                cells.append(f"{found[name]:.1%}" if name in found else tables.MISSING)
                if name in printed:
                    value = row.printed.get(name)
                    cells.append(tables.MISSING if value is None else f"{value:.1%}")
            rows.append(tuple(cells))
        return (Table(tuple(head), tuple(rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """A panel for each thing that is shown."""
        found = []
        for row in self.rows:
            for shows in row.shows:
                for _, result in results.of(self._facts(row, shows)):
                    found.append(_panel(row.name, shows, result))
        return found

    def _facts(self, row: TradeOffRow, shows: Shown) -> Facts:
        course = brief(course_of(over(self.course, row.set)))
        facts = {
            "kind": self.kind,
            "course": course,
            "shows": shows,
            "points": self.points,
            "curves": list(self.curves),
        }
        return facts | {"epsilons": self.epsilons} if shows == "profile" else facts


def _panel(name: str, shows: Shown, result: Any) -> Panel:
    lines = [
        Line(_LABELS[curve], result["x"], values, _STYLES[curve], _ROLES[curve])
        for curve, values in result["curves"].items()
    ]
    match shows:
        case "errors":
            return Panel(name, "type I error", "type II error", lines, bottom=0.0)
        case "profile":
            return Panel(name, "epsilon", "delta", lines, log="y", bottom=1e-9)
        case "power":
            level = Line("as the limit promises", [1e-8, 1e-1], [1.0, 1.0], "dashed", "clt")
            title = f"{name}: how often the best attack succeeds"
            return Panel(title, "type I error", "power, exact over CLT", [*lines, level], log="x")


def _curves(course: Course, names: Sequence[str]) -> dict[str, TradeOff]:
    found: dict[str, TradeOff] = {}
    ((noise, steps),) = course.phases
    for name in names:
        match name:
            case "exact":
                found[name] = trade_off(course.event(), course.adjacency)
            case "clt":
                found[name] = from_mu(gdp.clt_mu([(course.share, noise, steps)]))
            case "moments":
                curve = rdp.compose([(partial(rdp.sampled_gaussian, course.share, noise), steps)])
                deltas = np.logspace(-12, -0.01, 120)
                epsilons = [max(0.0, paper_figures.moments(curve, float(delta))) for delta in deltas]
                found[name] = from_pairs(np.array(epsilons), deltas)
            case _:
                epsilon = account(course.event(), course.delta, course.adjacency, Method.MOMENTS).epsilon
                found[name] = from_pairs(np.array([epsilon]), np.array([course.delta]))
    return found


def _sums(curves: dict[str, TradeOff]) -> dict[str, float]:
    return {name: 1 - curve.advantage for name, curve in curves.items()}


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
