"""Warnings of a loss are shown a few times in a run, and not for every row."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from problems import tiny_plan, tiny_training
from torch import nn


@pytest.mark.parametrize("steps", [4, 12])
def test_a_loss_that_warns_does_so_a_few_times(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets of shape (n,) for outputs of shape (n, 1): torch warns wherever they meet."""
    shown: list[str] = []
    rows, targets = torch.randn(40, 3), torch.randn(40)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append(str(message)))
        training = tiny_training(
            tmp_path,
            plan=tiny_plan(steps=steps, population=40),
            model=nn.Linear(3, 1),
            criterion=nn.MSELoss(),
            data=(rows, targets),
        )
        before = len(shown)
        training.run(progress=False)
    assert before > 0
    assert len(shown) - before <= 3, "as many as there are steps"
