"""Kind `goals`: shipped recipes at stated budgets, and whether they reach their goals."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.core.errors import InputError
from discreet.core.yaml_files import parse_yaml
from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Bar, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over


class Goal(Frozen):
    """A recipe by name (or in full), with changed keys, and the goal for its mean.

    `goal` is a least share for an accuracy, an upper limit for any other metric; without it there is no goal. `splits`:
    each run has the split of the data of its number. `says`: where the goal comes from, or what it leaves out.
    """

    name: str
    recipe: str | dict[str, Any]
    set: dict[str, Any] = Field(default_factory=dict)
    metric: str = "accuracy"
    goal: float | None = None
    seeds: int = Field(default=5, ge=1)
    splits: bool = False
    says: str = ""


class GoalsPart(Frozen):
    """The kind. All runs of a goal come before those of the next, so name the cheapest goals first."""

    kind: Literal["goals"]
    goals: tuple[Goal, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named(self) -> GoalsPart:
        if len({one.name for one in self.goals}) < len(self.goals):
            raise ValueError("goals need different names")
        return self

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each goal and run."""
        return [
            Cell(f"{one.name}, {'split' if one.splits else 'run'} {seed}", facts_of(one, seed), seed)
            for one in self.goals
            for seed in range(seeds or one.seeds)
        ]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Train, privately, in a folder that is gone afterwards."""
        from discreet_papers.measure.runs import take

        return take(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """A row for each goal."""
        head = ("what", "recipe", "certified epsilon", "delta", "runs", "goal", "mean", "std. dev.", "reached", "note")
        return (Table(head, tuple(self._row(one, results) for one in self.goals)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Accuracies beside their goals, where there is one."""
        bars = []
        for one in self.goals:
            values = values_of(one, results)
            if values and one.metric == "accuracy" and one.goal is not None:
                goal = 100 * one.goal
                bars.append(Bar(one.name, statistics.mean(values), min(values), max(values), goal))
        panel = Panel("Accuracies and goals", "accuracy on public test rows, %", "", bars=bars, marks="goal")
        return [panel] if bars else []

    def _row(self, one: Goal, results: Results) -> tuple[str, ...]:
        values, found = values_of(one, results), found_of(one, results)
        recipe = one.recipe if isinstance(one.recipe, str) else "in the experiment"
        epsilon = tables.up(max(float(result["epsilon"]) for result in found)) if found else tables.MISSING
        delta = f"{found[0]['delta']:g}" if found else tables.MISSING
        return (
            one.name,
            recipe,
            epsilon,
            delta,
            str(len(values)),
            _goal(one),
            *mean(values),
            _reached(one, values),
            one.says,
        )


def facts_of(goal: Goal, seed: int) -> Facts:
    """The recipe with its changes, as it was written; facts are those of training cells."""
    base = shipped(goal.recipe) if isinstance(goal.recipe, str) else goal.recipe
    recipe = over(base, goal.set)
    if goal.splits:
        recipe = over(recipe, {"data": {"split": seed}})
    facts: dict[str, Any] = {"kind": "training", "recipe": recipe}
    facts |= {"metric": goal.metric} if goal.metric != "accuracy" else {}
    return dict(json.loads(json.dumps(facts)))


def shipped(name: str) -> Mapping[str, Any]:
    """The content of a recipe that comes with the library; torch is not loaded for it."""
    file = resources.files("discreet").joinpath("recipes", f"{name}.yaml")
    if not file.is_file():
        raise InputError(f"unknown recipe {name!r}; give the name of one that comes with the library, or all its keys")
    return dict(parse_yaml(file.read_text("utf-8"), file.name))


def found_of(goal: Goal, results: Results) -> list[Mapping[str, Any]]:
    """The results of all available runs, even if there are more than `seeds`."""
    if not goal.splits:
        return [result for _, result in results.of(facts_of(goal, 0))]
    return [result for seed in range(goal.seeds) for _, result in results.of(facts_of(goal, seed))]


def values_of(goal: Goal, results: Results) -> list[float]:
    """The metric of all available runs; an accuracy in percent."""
    unit = 100 if goal.metric == "accuracy" else 1
    return [unit * result["metrics"][goal.metric] for result in found_of(goal, results)]


def mean(values: Sequence[float]) -> tuple[str, str]:
    """Mean and standard deviation as text."""
    if not values:
        return tables.MISSING, tables.MISSING
    digits = 2 if statistics.mean(values) > 10 else 4
    spread = f"{statistics.stdev(values):.{digits}f}" if len(values) > 1 else tables.MISSING
    return f"{statistics.mean(values):.{digits}f}", spread


def _goal(goal: Goal) -> str:
    if goal.goal is None:
        return tables.MISSING
    return f"{100 * goal.goal:g} %" if goal.metric == "accuracy" else f"{goal.metric} {goal.goal:g}"


def _reached(goal: Goal, values: Sequence[float]) -> str:
    if goal.goal is None or len(values) < goal.seeds:
        return tables.MISSING
    average = statistics.mean(values)
    met = average >= 100 * goal.goal if goal.metric == "accuracy" else average <= goal.goal
    return "yes" if met else "no"
