"""Kind `training`: private runs of a recipe with some changed keys, each with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet_papers.pages import training_tables as shown
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.reaching import reach_table
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Results, Setting
from discreet_papers.parts.trained.training_runs import TrainingRuns


class TrainingPart(TrainingRuns):
    """The kind."""

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each run and seed; all runs of one seed come before those of the next."""
        named = [(run.name, self.facts(run.set)) for run in self.runs]
        for sweep in self.sweeps:
            for line in sweep.lines:
                for point in sweep.points:
                    name = " ".join(filter(None, [sweep.title, line.name, f"{point.x:g}"]))
                    named.append((name, self.facts(line.set, point.set)))
        whose = f"{self.title}: " if self.title else ""
        every = range(self.first_seed, self.first_seed + (seeds or self.seeds))
        return [Cell(f"{whose}{name}, seed {seed}", facts, seed) for seed in every for name, facts in named]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Train, privately, in a folder that is gone afterwards."""
        from discreet_papers.measure.runs import take

        return take(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """Mean and spread of the accuracy beside what is printed, with what is certified; and what the paper says."""
        found = [shown.runs_table(self, results)] if self.runs else []
        found += [shown.sweep_table(self, sweep, results) for sweep in self.sweeps]
        found += [reach_table(self, results)] if self.reach else []
        said = [shown.claims_of(self, results)] if self.claims else []
        return found + [table for table in said if table.rows]

    def panels(self, results: Results) -> Sequence[Panel]:
        """The pictures that `draws` names, and the sweeps."""
        return [shown.draw(self, what, results) for what in self.draws] + [
            shown.sweep_panel(self, sweep, results) for sweep in self.sweeps if sweep.drawn
        ]
