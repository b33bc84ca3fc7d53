"""Runs of kind `training`, as a file states them: what the part measures, and what tables and curves show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.plan.pydantic_base import Frozen
from discreet_papers.part import Facts, over


class Run(Frozen):
    """Changed keys of the recipe, and the accuracy that the paper prints."""

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
    """A claim of the paper on two runs: `better` is more accurate than `worse`."""

    says: str
    better: str
    worse: str


class Level(Frozen):
    """An accuracy to reach, and the epsilon printed for it, run by run."""

    accuracy: float = Field(gt=0, le=1)
    printed: dict[str, float] = Field(default_factory=dict)


class TrainingRuns(Frozen):
    """The fields of the kind.

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
    def _named(self) -> TrainingRuns:
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

    def facts(self, *changes: Mapping[str, Any]) -> Facts:
        """The recipe with these changes, one after the other, as it was written."""
        facts: dict[str, Any] = {"kind": self.kind, "recipe": reduce(over, changes, self.recipe)}
        facts |= {"spending": self.spending} if self.spending else {}
        facts |= {} if self.readings is None else {"readings": self.readings}
        facts |= {"budget": True} if "budget" in self.draws else {}
        facts |= {"metric": self.metric} if self.metric != "accuracy" else {}
        return dict(json.loads(json.dumps(facts)))
