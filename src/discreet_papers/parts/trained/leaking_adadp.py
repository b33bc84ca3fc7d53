"""Kind `leaking_adadp`: runs of ADADP with what its Algorithm 1 prints of raw gradients, beside private ones.

No run here is private, or has an epsilon: all are taken in an open loop, on public data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.claims import difference, paired
from discreet_papers.pages.pictures import Bar, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting


class LeakingRun(Frozen):
    """A run, its learning rate, and the rates from which that was chosen on held-out training rows.

    `squares`: what shapes clipping and noise: nothing, the released gradients less their noise, the raw mean gradients
    (line 23), or the mean squares of the examples' raw gradients. `moved_by`: the noisy gradient, or the raw one (line
    25). `divided`: whether learning rates adapt. `printed`: the points that the paper is ahead of `versus` with it.
    """

    name: str
    squares: Literal["none", "released", "mean", "examples"] = "none"
    clip: Literal["ellipsoid", "box"] = "ellipsoid"
    moved_by: Literal["noisy", "raw"] = "noisy"
    divided: bool = True
    lr: float = Field(gt=0)
    chosen_from: tuple[float, ...] = ()
    printed: float | None = None

    @property
    def method(self) -> dict[str, Any]:
        """Everything but the learning rate."""
        return self.model_dump(mode="json", include={"squares", "clip", "moved_by", "divided"})


class LeakingADADPPart(Frozen):
    """The kind. Noise and batches are drawn by the seed of a run, so runs of one seed are paired."""

    kind: Literal["leaking_adadp"]
    title: str
    seeds: int = Field(ge=1)
    steps: int = Field(ge=1)
    noise: float = Field(gt=0)
    components: int = Field(default=60, ge=1)
    components_noise: float = Field(gt=0)
    hidden: int = Field(default=1000, ge=1)
    versus: str
    held_out: int = Field(default=10_000, ge=1)
    """The last training images, by which learning rates are chosen."""
    held_out_seed: int = 1000
    runs: tuple[LeakingRun, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named(self) -> LeakingADADPPart:
        names = [run.name for run in self.runs]
        if len(set(names)) < len(names):
            raise ValueError("runs need different names")
        if self.versus not in names:
            raise ValueError(f"there is no run {self.versus!r}; runs: {', '.join(names)}")
        return self

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """The choice of learning rates, then all runs of one seed before those of the next."""
        found = [
            Cell(f"{self.title}: {run.name}, held out, rate {lr:g}", self._held_out(run, lr), self.held_out_seed)
            for run in self.runs
            for lr in run.chosen_from
        ]
        return found + [
            Cell(f"{self.title}: {run.name}, seed {seed}", self._facts(run, run.lr, 0), seed)
            for seed in range(seeds or self.seeds)
            for run in self.runs
        ]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Take the steps, in the open: no privacy is claimed."""
        from discreet_papers.measure.leaking_adadp import run

        return run(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """Mean and spread beside what is printed, and how learning rates were chosen."""
        against = self._scores(next(run for run in self.runs if run.name == self.versus), results)
        rows = []
        for run in self.runs:
            found = self._scores(run, results)
            values = list(found.values())
            spread = f"{stdev(values):.2f}" if len(values) > 1 else tables.MISSING
            figures = (f"{mean(values):.2f}", spread) if values else (tables.MISSING,) * 2
            ahead = "" if run.name == self.versus else difference(paired(found, against))
            printed = tables.MISSING if run.printed is None else f"{run.printed:+.1f}"
            rows.append((run.name, f"{run.lr:g}", str(len(values)), *figures, ahead, printed))
        head = ("run", "learning rate", "runs", "accuracy %", "std. dev.", f"minus {self.versus}", "printed")
        note = f"Minus {self.versus}: the mean difference over seeds ± its standard error. No privacy is claimed."
        choice = self._choice(results)
        return (Table(head, tuple(rows), self.title, (note,)), *([choice] if choice.rows else []))

    def panels(self, results: Results) -> Sequence[Panel]:
        """Accuracies, and those that the printed differences would make."""
        found = {run.name: list(self._scores(run, results).values()) for run in self.runs}
        base = found[self.versus]
        bars = [
            Bar(run.name, mean(values), min(values), max(values), _printed(run, base))
            for run in self.runs
            if (values := found[run.name])
        ]
        marks = f"the printed distance from {self.versus}"
        return [Panel(self.title, "accuracy on public test rows, %", "", bars=bars, marks=marks)] if bars else []

    def _choice(self, results: Results) -> Table:
        rows = []
        for run in self.runs:
            found = [results.of(self._held_out(run, lr)) for lr in run.chosen_from]
            accuracies = [f"{100 * one[0][1]['accuracy']:.2f}" if one else tables.MISSING for one in found]
            if run.chosen_from:
                rows.append((run.name, ", ".join(f"{lr:g}" for lr in run.chosen_from), ", ".join(accuracies)))
        head = ("run", "learning rates", "accuracy % on held-out training images")
        return Table(head, tuple(rows), f"{self.title}: the choice of learning rates")

    def _scores(self, run: LeakingRun, results: Results) -> Mapping[int | None, float]:
        return {seed: 100 * result["accuracy"] for seed, result in results.of(self._facts(run, run.lr, 0))}

    def _held_out(self, run: LeakingRun, lr: float) -> Facts:
        return self._facts(run, lr, self.held_out)

    def _facts(self, run: LeakingRun, lr: float, held_out: int) -> Facts:
        own = {"kind": self.kind, "data": "mnist", "method": run.method, "lr": lr, "held_out": held_out}
        return own | self.model_dump(
            mode="json", include={"steps", "noise", "components", "components_noise", "hidden"}
        )


def _printed(run: LeakingRun, base: Sequence[float]) -> float | None:
    return None if run.printed is None or not base else mean(base) + run.printed
