"""Kind `training`: private runs of a recipe with some of its keys set otherwise, each with several seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.plan.pydantic_base import Frozen
from discreet_papers.experiment import Cell, Facts, Results, Setting, over
from discreet_papers.pages import training_tables as shown
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.reaching import reach_table
from discreet_papers.pages.tables import Table


class Run(Frozen):
    """Keys of the recipe that are otherwise here, and the accuracy that the paper prints."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    printed: float | None = None
    drawn: bool = True
    """Whether curves show it."""


class Point(Frozen):
    """A place on a line."""

    x: float
    set: dict[str, Any] = Field(default_factory=dict)
    printed: float | None = None


class Sweep(Frozen):
    """Accuracy over one thing that varies: a panel with a line for each of `lines`."""

    title: str
    x: str
    points: tuple[Point, ...] = Field(min_length=1)
    lines: tuple[Run, ...] = (Run(name=""),)
    log: Literal["", "x"] = ""
    drawn: bool = True


class Compared(Frozen):
    """Something that the paper says of two runs: that `better` is more accurate than `worse`."""

    says: str
    better: str
    worse: str


class Level(Frozen):
    """An accuracy to be reached, and the epsilon that is printed for it, run by run."""

    accuracy: float = Field(gt=0, le=1)
    printed: dict[str, float] = Field(default_factory=dict)


class TrainingPart(Frozen):
    """The kind.

    `recipe` is as `discreet train` takes it; a model with a key `seed` gets the seed of the run. `draws`: accuracy over
    epochs, against epsilon, as bars; the noise, the expected batch and the budget of a filter; curves begin at `least`.
    `spending`: how many points of epsilon over the steps are computed for them. `readings`: the delta at which
    odometers read the run, had it ended there. `reach`: accuracies, for which the price of a plan that is just long
    enough is shown. `versus` names the run that the others are compared with, seed by seed.
    """

    kind: Literal["training"]
    title: str = ""
    recipe: dict[str, Any]
    seeds: int = Field(ge=1)
    first_seed: int = 0
    metric: str = "accuracy"
    runs: tuple[Run, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    draws: tuple[Literal["epochs", "epsilon", "bars", "noise", "batch", "budget", "odometer"], ...] = ()
    least: float | None = None
    spending: int = Field(default=0, ge=0)
    readings: float | None = Field(default=None, gt=0, lt=1)
    versus: str | None = None
    claims: tuple[Compared, ...] = ()
    reach: tuple[Level, ...] = ()

    @model_validator(mode="after")
    def _named(self) -> TrainingPart:
        names = [run.name for run in self.runs]
        if len(set(names)) < len(names):
            raise ValueError("runs need different names")
        wanted = {one for claim in self.claims for one in (claim.better, claim.worse)} | ({self.versus} - {None})
        wanted |= {name for level in self.reach for name in level.printed}
        if wanted - set(names):
            raise ValueError(f"there is no run {sorted(map(str, wanted - set(names)))[0]!r}; runs: {', '.join(names)}")
        if self.reach and not self.spending:
            raise ValueError("reach needs spending, the points at which epsilon is known")
        if not (self.runs or self.sweeps):
            raise ValueError("give runs or sweeps")
        return self

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each run and seed; all runs of one seed come before those of the next."""
        named = [(run.name, self.facts(run.set)) for run in self.runs]
        for sweep in self.sweeps:
            for line in sweep.lines:
                for point in sweep.points:
                    name = " ".join(filter(None, [sweep.title, line.name, f"{point.x:g}"]))
                    named.append((name, self.facts(over(line.set, point.set))))
        whose = f"{self.title}: " if self.title else ""
        every = range(self.first_seed, self.first_seed + (seeds or self.seeds))
        return [Cell(f"{whose}{name}, seed {seed}", facts, seed) for seed in every for name, facts in named]

    def facts(self, changes: dict[str, Any]) -> Facts:
        """The recipe with these changes, as it was written."""
        facts: dict[str, Any] = {"kind": self.kind, "recipe": over(self.recipe, changes)}
        facts |= {"spending": self.spending} if self.spending else {}
        facts |= {} if self.readings is None else {"readings": self.readings}
        facts |= {"budget": True} if "budget" in self.draws else {}
        facts |= {"metric": self.metric} if self.metric != "accuracy" else {}
        return dict(json.loads(json.dumps(facts)))

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
        """What `draws` names, and the sweeps."""
        return [shown.draw(self, what, results) for what in self.draws] + [
            shown.sweep_panel(self, sweep, results) for sweep in self.sweeps if sweep.drawn
        ]
