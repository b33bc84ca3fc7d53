"""AGD at work on a convex problem: step sizes, objective and budget over its steps.

python docs/figures/agd.py

Softmax regression on the digits of scikit-learn, which are public: the objective is shown beside the private run, and
never looked at by it. Beside itself the script writes `agd.png`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import nn

from discreet.core.array_types import Array
from discreet.core.events import Gaussian
from discreet.data.sets.digits import digits
from discreet.methods import AGD
from discreet.plan import agd_plan
from discreet.randomness import TestStream
from discreet.training import RunOptions, Training

HERE = Path(__file__).parent
BLUE, RED, GREEN, GREY = "#0b5394", "#c0392b", "#38761d", "#8a8f98"


@dataclass(frozen=True)
class Course:
    """One entry for each step: what was chosen, the largest candidate, the objective after it, and what it cost."""

    chosen: Array
    largest: Array
    objective: Array
    gradient: Array
    choice: Array


def run() -> tuple[Course, float]:
    """A run at epsilon 1, and the budget rho that it had."""
    inputs, targets = digits().train
    inputs = inputs / 16
    model = nn.Linear(64, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    criterion = nn.CrossEntropyLoss()
    plan = agd_plan(population=1437, epsilon=1.0, delta=1e-5, bound=3.0, clip_norm=3.0)
    assert plan.line_search is not None
    rows: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            plan,
            model,
            criterion,
            AGD(model.parameters()),
            (inputs, targets),
            run=RunOptions(Path(folder) / "run", stream=TestStream(2)),
        )
        with training.session() as session:
            control: Any = session.control
            while session.ready():
                event = session._charged._receipts[0].event
                assert isinstance(event, Gaussian)
                largest = plan.line_search.step_sizes(control.progress.phases)[-1]
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(criterion, chunk)
                with torch.no_grad():
                    losses = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
                rows.append(
                    (
                        control.progress.step_size,
                        largest,
                        float(losses.clamp(0, 3).mean()),
                        plan.filter.cost(event)[0],
                        plan.filter.cost(plan.line_search.event)[0],
                    )
                )
    return Course(*np.array(rows).T), plan.filter.limits[0]


def dress(axes: Axes, y: str, title: str) -> None:
    """Labels, a light grid and no box."""
    axes.set_xlabel("step (a gradient and a choice)")
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, color="#e3e6ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def draw(course: Course, rho: float) -> Figure:
    """Three panels."""
    figure = Figure(figsize=(13.2, 3.8), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    sizes, budget, objective = figure.subplots(1, 3)
    steps = np.arange(1, len(course.chosen) + 1)
    moved = course.chosen > 0

    sizes.step(steps, course.largest, where="mid", color=GREY, linewidth=1, label="largest candidate")
    sizes.plot(steps[moved], course.chosen[moved], "o", color=BLUE, markersize=4, label="chosen")
    sizes.plot(steps[~moved], course.chosen[~moved], "x", color=RED, markersize=6, label='chosen: 0, "stay"')
    sizes.legend(frameon=False, fontsize=8)
    dress(sizes, "step size", "How far it goes")

    spent = np.cumsum(course.gradient + course.choice) / rho
    budget.fill_between(steps, np.cumsum(course.choice) / rho, color=GREEN, alpha=0.35, label="of it, choices")
    budget.plot(steps, spent, color=BLUE, label="spent")
    budget.axhline(1, color=RED, linestyle="--", linewidth=1, label="the filter's limit")
    for step in steps[~moved]:
        budget.axvline(step, color=RED, alpha=0.25, linewidth=0.8)
    budget.set_ylim(0, 1.08)
    budget.legend(frameon=False, fontsize=8, loc="lower right")
    dress(budget, "share of the budget rho", "What it spends (lines: a choice of 0)")

    objective.plot(steps, course.objective, color=BLUE)
    objective.set_ylim(0, None)
    dress(objective, "clipped loss per row", "What comes of it (not released)")
    return figure


if __name__ == "__main__":
    draw(*run()).savefig(HERE / "agd.png")
