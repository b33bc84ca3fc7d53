"""Kind `timing`: seconds of a training step, run by run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over


class TimingRow(Frozen):
    """Changed keys of the recipe, and the printed seconds."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    printed: float | None = None


class TimingPart(Frozen):
    """The kind. Each run is taken `times` times with `steps` steps and with one; the difference is the steps'.

    Seconds are processor time, so other programs on the machine matter little. The other rows are compared with the
    first.
    """

    kind: Literal["timing"]
    title: str = ""
    recipe: dict[str, Any]
    rows: tuple[TimingRow, ...] = Field(min_length=1)
    steps: int = Field(ge=2)
    times: int = Field(default=3, ge=1)

    @model_validator(mode="after")
    def _named(self) -> TimingPart:
        if len({row.name for row in self.rows}) < len(self.rows):
            raise ValueError("rows need different names")
        return self

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each row and time; all rows once come before all rows again."""
        whose = f"{self.title}: " if self.title else ""
        return [
            Cell(f"{whose}{row.name}, time {time}", self._facts(row), time)
            for time in range(seeds or self.times)
            for row in self.rows
        ]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Seconds a step."""
        from discreet_papers.measure.runs import seconds_of

        few, many = (seconds_of(cell, setting, steps) for steps in (1, self.steps))
        return {"seconds": max(0.0, many - few) / (self.steps - 1)}

    def tables(self, results: Results) -> Sequence[Table]:
        """The median of each row, and its ratio to the first, with the same of what is printed."""
        first = self._median(self.rows[0], results)
        rows = []
        for row in self.rows:
            here = self._median(row, results)
            ratio = tables.MISSING if not (first and here) else f"{here / first:.2f}"
            base = self.rows[0].printed
            printed = tables.MISSING if not (base and row.printed) else f"{row.printed / base:.2f}"
            shown = tables.MISSING if here is None else f"{1000 * here:.3g}"
            rows.append((row.name, shown, ratio, tables.number(row.printed), printed))
        head = ("method", "ms a step", f"/ {self.rows[0].name}", "printed, s", f"/ {self.rows[0].name}, printed")
        return (Table(head, tuple(rows), self.title),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """None."""
        return ()

    def _median(self, row: TimingRow, results: Results) -> float | None:
        found = [result["seconds"] for _, result in results.of(self._facts(row))]
        return statistics.median(found) if found else None

    def _facts(self, row: TimingRow) -> Facts:
        facts = {"kind": self.kind, "recipe": over(self.recipe, row.set), "steps": self.steps}
        return dict(json.loads(json.dumps(facts)))
