"""The price of reaching an accuracy: that of a plan which ends where the mean of the runs first reaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet_papers.pages import tables
from discreet_papers.pages.tables import Table
from discreet_papers.part import Results
from discreet_papers.parts.trained.training_runs import TrainingRuns


def reach_table(part: TrainingRuns, results: Results) -> Table:
    """A row for each accuracy: for each run the printed epsilon, the epochs, and the certified epsilon."""
    head = ["accuracy %"]
    for run in part.runs:
        head += [f"{run.name}: printed", "epochs", "certified epsilon"]
    rows = []
    for level in part.reach:
        cells = [f"{100 * level.accuracy:g}"]
        for run in part.runs:
            found = [result for _, result in results.of(part.facts(run.set))]
            cells += [tables.number(level.printed.get(run.name)), *_reached(found, level.accuracy)]
        rows.append(tuple(cells))
    note = "A plan of so many steps from the start. How many it takes is seen on public test rows."
    return Table(tuple(head), tuple(rows), "The price of an accuracy", (note,))


def _reached(found: Sequence[Mapping[str, Any]], accuracy: float) -> tuple[str, str]:
    if not found:
        return tables.MISSING, tables.MISSING
    step = first_step(found, accuracy)
    if step is None:
        return "not reached", tables.MISSING
    epochs = step / found[0]["steps"] * found[0]["epochs"]
    return f"{epochs:.3g}", tables.up(price(found[0]["spending"], step))


def first_step(found: Sequence[Mapping[str, Any]], accuracy: float) -> float | None:
    """The first number of steps at which the mean of the runs is at least `accuracy`."""
    steps = [step for step, _ in found[0]["curve"]]
    means = np.mean([[value for _, value in result["curve"]] for result in found], axis=0)
    there = np.flatnonzero(means >= accuracy)
    return float(steps[there[0]]) if len(there) else None


def price(spending: Sequence[Sequence[float]], steps: float) -> float:
    """An upper bound on the epsilon of `steps` steps, from rising [steps, epsilon] pairs."""
    return min(epsilon for count, epsilon in spending if count >= steps)
