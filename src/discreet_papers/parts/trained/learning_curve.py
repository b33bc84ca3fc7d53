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

PRIVATE, STOPPED = "private", "not private"
Scores = Mapping[int | None, float]
_NOTE = (
    "Minus the row above: the mean difference over seeds ± its standard error. Not private: neither clipping nor "
    "noise, and no epsilon; stopped after the epoch that was best for a tenth of its training rows, held out from a "
    "run on the others."
)


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
        """A row for each share: the metrics, and how far each moved since the share before."""
        rows = []
        before: dict[str, Scores] = {}
        for share in self.shares:
            found = results.of(self._facts(share, True))
            epsilon = tables.up(max(one["epsilon"] for _, one in found)) if found else tables.MISSING
            cells = [f"{share:g}", self._rows(share, results), epsilon, str(len(found))]
            for name, scores in self._found(share, results).items():
                moved = paired(scores, before[name]) if name in before else None
                cells += [*_mean(scores), difference(moved, 4) if name in before else ""]
                before[name] = scores
            rows.append((*cells, _mean(self._at_the_end(share, results))[0]))
        head = ["share of the rows", "training rows", f"certified epsilon{self._at}", "runs"]
        for name in (PRIVATE, STOPPED):
            head += [f"{self._metric}, {name}", "std. dev.", "minus the row above"]
        head.append(f"{self._metric}, not private, at the end")
        return (Table(tuple(head), tuple(rows), self.title, (_NOTE,)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Both over the number of rows."""
        lines = []
        for name in (PRIVATE, STOPPED):
            points = [
                (float(self._rows(share, results)) / 1000, *_range(scores))
                for share in self.shares
                if (scores := self._found(share, results)[name])
            ]
            if points:
                x, y, low, high = zip(*points, strict=True)
                lines.append(Line(name, x, y, low=low, high=high))
        if lines and self.printed is not None:
            lines.append(Line("printed, private", [self.printed.rows / 1000], [self.printed.value], "marks"))
        caption = "Lines are means of the runs, bands go from the least to the most."
        axis = f"{self._metric} on public test rows"
        return [Panel(self.title, "thousands of training rows", axis, lines, log="x", caption=caption)] if lines else []

    @property
    def _metric(self) -> str:
        return "RMSE" if self.metric == "rmse" else self.metric

    @property
    def _at(self) -> str:
        return f" at delta {self.recipe['delta']:g}" if "delta" in self.recipe else ""

    def _rows(self, share: float, results: Results) -> str:
        found = {result["rows"] for private in (True, False) for _, result in results.of(self._facts(share, private))}
        return str(found.pop()) if len(found) == 1 else tables.MISSING

    def _found(self, share: float, results: Results) -> dict[str, Scores]:
        """The metric by seed, of private runs and of the others where they were stopped."""
        private, public = (results.of(self._facts(share, private)) for private in (True, False))
        return {
            PRIVATE: {seed: one["metrics"][self.metric] for seed, one in private},
            STOPPED: {seed: one["stopped"][1] for seed, one in public},
        }

    def _at_the_end(self, share: float, results: Results) -> Scores:
        return {seed: one["metrics"][self.metric] for seed, one in results.of(self._facts(share, False))}

    def _facts(self, share: float, private: bool) -> Facts:
        recipe = over(self.recipe, {"population": round(share * self.recipe["population"])})
        facts = {"kind": self.kind, "recipe": recipe, "share": share, "private": private, "metric": self.metric}
        return dict(json.loads(json.dumps(facts)))


def _name(private: bool) -> str:
    return PRIVATE if private else STOPPED


def _mean(scores: Scores) -> tuple[str, str]:
    values = list(scores.values())
    spread = f"{stdev(values):.4f}" if len(values) > 1 else tables.MISSING
    return (f"{mean(values):.4f}", spread) if values else (tables.MISSING,) * 2


def _range(scores: Scores) -> tuple[float, float, float]:
    values = list(scores.values())
    return mean(values), min(values), max(values)
