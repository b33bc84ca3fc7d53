"""Kind `learning_curve`: a recipe on shares of its training rows, and the same network trained without privacy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any, Literal

from pydantic import Field

from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.claims import difference, paired
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over


class PrintedPoint(Frozen):
    """The paper's own number of training rows, and its metric."""

    rows: int = Field(ge=1)
    value: float


class LearningCurvePart(Frozen):
    """The kind. Rate, steps, noise and clip norm are the recipe's at every share, so every private run has one epsilon;
    the population is that share of the recipe's. A seed fixes the rows, which are the same with and without privacy."""

    kind: Literal["learning_curve"]
    title: str
    recipe: dict[str, Any]
    metric: str = "rmse"
    shares: tuple[float, ...] = Field(min_length=1)
    seeds: int = Field(ge=1)
    printed: PrintedPoint | None = None

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each share, private or not, and seed."""
        return [
            Cell(f"{share:g} of the rows, {_name(private)}, seed {seed}", self._facts(share, private), seed)
            for seed in range(seeds or self.seeds)
            for share in self.shares
            for private in (True, False)
        ]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Train on the share, privately in a folder that is gone afterwards, or in the open."""
        from discreet_papers.measure.learning_curve import run

        return run(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """A row for each share: both metrics, and how far each moved since the share before."""
        rows = []
        before: dict[bool, Mapping[int | None, float]] = {}
        for share in self.shares:
            found = results.of(self._facts(share, True))
            epsilon = tables.up(max(one["epsilon"] for _, one in found)) if found else tables.MISSING
            cells = [f"{share:g}", self._rows(share, results), epsilon, str(len(found))]
            for private in (True, False):
                scores = self._scores(share, private, results)
                moved = paired(scores, before[private]) if private in before else None
                cells += [*_mean(scores), "" if private not in before else difference(moved, 4)]
                before[private] = scores
            rows.append(tuple(cells))
        head = ["share of the rows", "training rows", f"certified epsilon{self._at}", "runs"]
        for private in (True, False):
            head += [f"{self._metric}, {_name(private)}", "std. dev.", "minus the row above"]
        note = "Minus the row above: the mean difference over seeds ± its standard error. Not private: no clipping, no "
        return (Table(tuple(head), tuple(rows), self.title, (f"{note}noise, and no epsilon.",)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Both over the number of rows."""
        lines = []
        for private in (True, False):
            points = [
                (float(self._rows(share, results)), *_range(scores))
                for share in self.shares
                if (scores := self._scores(share, private, results))
            ]
            if points:
                x, y, low, high = zip(*points, strict=True)
                lines.append(Line(_name(private), x, y, low=low, high=high))
        if lines and self.printed is not None:
            lines.append(Line("printed, private", [float(self.printed.rows)], [self.printed.value], "marks"))
        caption = "Lines are means of the runs, bands go from the least to the most."
        axis = f"{self._metric} on public test rows"
        return [Panel(self.title, "training rows", axis, lines, log="x", caption=caption)] if lines else []

    @property
    def _metric(self) -> str:
        return "RMSE" if self.metric == "rmse" else self.metric

    @property
    def _at(self) -> str:
        return f" at delta {self.recipe['delta']:g}" if "delta" in self.recipe else ""

    def _rows(self, share: float, results: Results) -> str:
        found = {result["rows"] for private in (True, False) for _, result in results.of(self._facts(share, private))}
        return str(found.pop()) if len(found) == 1 else tables.MISSING

    def _scores(self, share: float, private: bool, results: Results) -> Mapping[int | None, float]:
        return {seed: result["metrics"][self.metric] for seed, result in results.of(self._facts(share, private))}

    def _facts(self, share: float, private: bool) -> Facts:
        recipe = over(self.recipe, {"population": round(share * self.recipe["population"])})
        facts = {"kind": self.kind, "recipe": recipe, "share": share, "private": private, "metric": self.metric}
        return dict(json.loads(json.dumps(facts)))


def _name(private: bool) -> str:
    return "private" if private else "not private"


def _mean(scores: Mapping[int | None, float]) -> tuple[str, str]:
    values = list(scores.values())
    spread = f"{stdev(values):.4f}" if len(values) > 1 else tables.MISSING
    return (f"{mean(values):.4f}", spread) if values else (tables.MISSING,) * 2


def _range(scores: Mapping[int | None, float]) -> tuple[float, float, float]:
    values = list(scores.values())
    return mean(values), min(values), max(values)
