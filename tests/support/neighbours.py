"""Runs on neighbouring data along one path: what is released is made up, so that both runs see the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, linear, tiny_training
from torch import Tensor

from discreet.core.release import ClippedSum, Receipt, Release
from discreet.plan import IndividualSampling, Plan
from discreet.training import step as step_module

ROWS, PERIOD, FULL = 12, 10, 3


def budget_plan(**changes: Any) -> Plan:
    """Ten steps for a budget of three, each unit's own."""
    settings = {"population": ROWS, "steps": PERIOD, "delta": 1e-5, "clip_norm": 0.5, "noise_multiplier": 4.0}
    sampling = changes.pop("sampling", None) or IndividualSampling(period=PERIOD, full=FULL)
    return Plan.make(sampling, **(settings | changes))


def made_up(total: ClippedSum, receipt: Receipt, *_: Any) -> Release:
    """A release that does not depend on the data."""
    draw = np.random.default_rng(receipt.position)
    return Release({key: draw.normal(0, 6, part.shape) for key, part in total.tensors.items()}, receipt.event, receipt)


def sums_on_a_path(folder: Path, rows: tuple[Tensor, Tensor], **changes: Any) -> list[np.ndarray]:
    """The sum of each step, in units of its sensitivity, on a path that does not depend on the rows."""
    found = []

    def note(total: ClippedSum, receipt: Receipt, *rest: Any) -> Release:
        found.append(np.concatenate([total.tensors[key].ravel() for key in sorted(total.tensors)]) / total.sensitivity)
        return made_up(total, receipt, *rest)

    plan = changes.pop("plan", None) or budget_plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "gaussian_release", note)
        tiny_training(folder, plan=plan, data=rows, model=linear(), **changes).run(progress=False)
    return found


def with_one_more(rows: tuple[Tensor, Tensor], place: int) -> tuple[Tensor, Tensor]:
    """The rows, and one more with a long gradient at this place."""
    inputs, targets = rows
    row = torch.tensor([[3.0, -2.0, 1.0, 4.0]])
    return (
        torch.cat([inputs[:place], row, inputs[place:]]),
        torch.cat([targets[:place], torch.tensor([1]), targets[place:]]),
    )


def moved_by_one(folder: Path, place: int, **changes: Any) -> float:
    """How far one more unit moves all sums of a period: the squares of relative lengths, added up."""
    rows = blobs(ROWS - 1, seed=3)
    without = sums_on_a_path(folder / "without", rows, **changes)
    having = sums_on_a_path(folder / "having", with_one_more(rows, place), **changes)
    return float(sum(np.square(one - other).sum() for one, other in zip(having, without, strict=True)))
