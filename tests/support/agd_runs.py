"""AGD on tiny problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from problems import linear, tiny_training

from discreet.methods import AGD
from discreet.plan import AdaptivePlan, agd_plan
from discreet.training import Training

BOUND = 3.0
"""Where losses are clipped."""


def agd(**changes: Any) -> AdaptivePlan:
    """24 rows, and a budget for about twelve steps as it starts."""
    given: dict[str, Any] = {
        "population": 24,
        "epsilon": 20.0,
        "delta": 1e-5,
        "bound": BOUND,
        "clip_norm": 1.0,
        "splits": 12,
        "search": {"candidates": 6, "growth": 0.5},
    }
    return agd_plan(**(given | changes))


def agd_training(folder: Path, **changes: Any) -> Training:
    """A training on blobs with a test stream; `changes` win."""
    model = changes.pop("model", None) or linear()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options: dict[str, Any] = {"model": model, "plan": agd(), "optimizer": AGD(trained), "physical_batch": 5}
    return tiny_training(folder, **(options | changes))


def take(training: Training, session: Any, steps: int) -> int:
    """Take at most so many steps, saving after each; how many were taken."""
    for taken in range(steps):
        if not session.ready():
            return taken
        with session.step() as step:
            for chunk in step.chunks:
                step.add(training.criterion, chunk)
        training.save(session)
    return steps
