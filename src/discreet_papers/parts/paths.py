"""Kind `paths`: paths on the Beale function with and without noise, and their distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from discreet.plan.pydantic_base import Frozen
from discreet.sampling.record import Count, Positive
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting

_MINIMUM = (3.0, 0.5)


class PathsRow(Frozen):
    """A method with its learning rate, and the distance that is printed."""

    name: str
    method: Literal["sgd", "adadp", "printed"]
    rate: Positive
    printed: float | None = None


class PathsPart(Frozen):
    """The kind: several private paths of each row, all from one start."""

    kind: Literal["paths"]
    rows: tuple[PathsRow, ...] = Field(min_length=1)
    paths: Count
    steps: Count = 150
    start: tuple[float, float] = (1.0, 1.0)
    clip_norm: Positive = 1.0
    multiplier: Positive

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each row."""
        return [Cell(row.name, self._facts(row)) for row in self.rows]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The exact path, one private path, and the mean distance of all private ones from the exact one."""
        from discreet_papers.measure.beale import Walk, distance

        facts = cell.facts
        names = {"sgd": "sgd_lr"}
        rate = {names.get(facts["method"], "lr"): facts["rate"]}
        walk = Walk(tuple(facts["start"]), facts["steps"], facts["clip_norm"], facts["multiplier"], **rate)
        walked = getattr(walk, facts["method"])
        exact = walked(0.0, 0)
        private = [walked(facts["multiplier"], seed) for seed in range(facts["paths"])]
        return {
            "distance": sum(distance(one, exact) for one in private) / len(private),
            "exact": _rounded(exact.points),
            "private": _rounded(private[0].points),
        }

    def tables(self, results: Results) -> Sequence[Table]:
        """Distances, and how near to the minimum the exact path comes."""
        head = ("method", "rate", "mean distance", "printed", "exact path ends, from the minimum")
        rows = []
        for row in self.rows:
            found = results.one(self._facts(row))
            figures = (tables.MISSING,) * 2
            if found is not None:
                end = math.dist(found["exact"][-1], _MINIMUM)
                figures = (f"{found['distance']:.2f}", f"{end:.2f}")
            rows.append((row.name, f"{row.rate:g}", figures[0], tables.number(row.printed), figures[1]))
        return (Table(head, tuple(rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """A panel for each row: both paths, and the minimum."""
        found = []
        for row in self.rows:
            for _, result in results.of(self._facts(row)):
                lines = [
                    Line(name, [x for x, _ in result[name]], [y for _, y in result[name]])
                    for name in ("exact", "private")
                ]
                lines.append(Line("minimum", [_MINIMUM[0]], [_MINIMUM[1]], "marks"))
                found.append(Panel(f"{row.name}, rate {row.rate:g}", "x", "y", lines))
        return found

    def _facts(self, row: PathsRow) -> Facts:
        course = {"steps": self.steps, "start": list(self.start), "clip_norm": self.clip_norm}
        facts = {"kind": self.kind, "method": row.method, "rate": row.rate, "paths": self.paths}
        return facts | course | {"multiplier": self.multiplier}


def _rounded(points: Any) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in point] for point in points]
