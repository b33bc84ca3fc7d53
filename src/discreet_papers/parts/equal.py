"""Kind `equal`: papers' printed figures, their methods and our recipes at equal certified privacy, from other
experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Part, Results, Setting
from discreet_papers.parts.trained.goals import GoalsPart, found_of, mean
from discreet_papers.parts.trained.training import TrainingPart

_ALIKE = 1.001
"""Tolerance: plans that were calibrated to one epsilon lie slightly, and differently, below it."""


class Taken(Frozen):
    """Runs of another experiment: the name of a run of a training part, or of a goal."""

    experiment: str
    run: str


class EqualRow(Frozen):
    """A setting of a paper: what it prints and claims, its method measured here, and our best recipe."""

    what: str
    printed: float
    claimed: str
    metric: str = "accuracy"
    own: Taken
    best: Taken


class EqualPart(Frozen):
    """The kind. It has no cells of its own."""

    kind: Literal["equal"]
    rows: tuple[EqualRow, ...] = Field(min_length=1)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """None: all is measured elsewhere."""
        return ()

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Nothing is measured."""
        raise NotImplementedError(cell.name)

    def tables(self, results: Results) -> Sequence[Table]:
        """A row for each setting."""
        ours = ("certified", "accuracy %", "std. dev.", "runs")
        its, best = (tuple(f"{whose}: {one}" for one in ours) for whose in ("its method", "recipe"))
        head = ("what", "epsilon claimed", "accuracy printed, %", *its, "our recipe", *best, "recipe costs no more?")
        return (Table(head, tuple(self._row(row, results) for row in self.rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """None."""
        return ()

    def _row(self, row: EqualRow, results: Results) -> tuple[str, ...]:
        own, best = results_of(row.own, results), results_of(row.best, results)
        printed = f"{100 * row.printed:.2f}" if row.metric == "accuracy" else f"{row.printed:g}"
        shown = (*_figures(own, row.metric), row.best.run, *_figures(best, row.metric))
        no_more = tables.MISSING
        if own and best:
            no_more = "yes" if _price(best) <= _ALIKE * _price(own) and _delta(best) <= _delta(own) else "no"
        rmse = "" if row.metric == "accuracy" else f" ({row.metric})"
        return (row.what, row.claimed, printed + rmse, *shown, no_more)


def results_of(taken: Taken, results: Results) -> list[Mapping[str, Any]]:
    """The results of these runs; always of full runs, whatever the mode of the page."""
    parts = results.parts(taken.experiment)
    there = results.beside(taken.experiment)
    for part in parts:
        if isinstance(part, TrainingPart):
            for run in part.runs:
                if run.name == taken.run:
                    return [result for _, result in there.of(part.facts(run.set))]
        if isinstance(part, GoalsPart):
            for goal in part.goals:
                if goal.name == taken.run:
                    return found_of(goal, there)
    raise InputError(f"experiment {taken.experiment} has no run {taken.run!r}; it has: {', '.join(_runs(parts))}")


def _runs(parts: Sequence[Part]) -> list[str]:
    found = []
    for part in parts:
        found += [run.name for run in part.runs] if isinstance(part, TrainingPart) else []
        found += [goal.name for goal in part.goals] if isinstance(part, GoalsPart) else []
    return found


def _figures(found: Sequence[Mapping[str, Any]], metric: str) -> tuple[str, str, str, str]:
    if not found:
        return (*(tables.MISSING,) * 3, "0")
    values = [(100 if metric == "accuracy" else 1) * result["metrics"][metric] for result in found]
    return (f"({tables.up(_price(found))}, {_delta(found):g})", *mean(values), str(len(values)))


def _price(found: Sequence[Mapping[str, Any]]) -> float:
    return max(float(result["epsilon"]) for result in found)


def _delta(found: Sequence[Mapping[str, Any]]) -> float:
    return max(float(result["delta"]) for result in found)
