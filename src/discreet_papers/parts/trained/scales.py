"""Kind `scales`: the shape of a run's noise after some of its steps, beside the gradient of public rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting


class ScalesPart(Frozen):
    """The kind: one run of a recipe whose method shapes the noise, looked at after `at` steps; then it ends."""

    kind: Literal["scales"]
    title: str = ""
    recipe: dict[str, Any]
    at: tuple[int, ...] = Field(min_length=1)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """One cell."""
        return [Cell(self.title or "scales", self._facts(), 0)]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Train, privately, in a folder that is gone afterwards."""
        from discreet_papers.measure.seen_scales import look

        return look(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """Sizes of both, and their correlation."""
        rows = []
        for look in self._looks(results):
            rank = look["rank_correlation"]
            figures = [f"{look[name]:.3g}" for name in ("rms_noise", "rms_gradient")]
            rows.append(
                (str(look["step"]), *figures, tables.MISSING if rank is None else f"{round(rank, 2) + 0.0:.2f}")
            )
        head = ("step", "noise, root mean square", "gradient of public rows", "rank correlation of the two")
        return (Table(head, tuple(rows), self.title),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Quantiles of both, each in multiples of its root mean square."""
        found = []
        titles = {"gradient": "Size of the gradient of public rows", "noise": "Noise on each number"}
        for name, title in titles.items():
            lines = [
                Line(f"step {look['step']}", shares, look[name])
                for _, result in results.of(self._facts())
                for shares, look in ((result["shares"], one) for one in result["looks"])
            ]
            if lines:
                share, size = "share of the numbers that are smaller", "multiples of the root mean square"
                found.append(Panel(title, share, size, lines, log="y", bottom=1e-3 if name == "gradient" else 0.5))
        return found

    def _looks(self, results: Results) -> list[dict[str, Any]]:
        return [look for _, result in results.of(self._facts()) for look in result["looks"]]

    def _facts(self) -> Facts:
        recipe = self.recipe | {"steps": max(self.at)}
        return dict(json.loads(json.dumps({"kind": self.kind, "recipe": recipe, "at": sorted(self.at)})))
