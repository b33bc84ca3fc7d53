"""What a model or a loss warns of is shown before a run, on random rows, and never of private rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import tiny_plan, tiny_training
from torch import Tensor, nn

from discreet.clipping import ENGINES


class Warns(nn.Module):
    """Compares things of other shapes, of which torch warns with the shapes, and so with the number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) + 0 * F.l1_loss(x, x[:, :1], reduction="none").sum(1, keepdim=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_warning_tells_of_a_step(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    rows, targets = torch.randn(40, 3), torch.randn(40, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append(str(message)))
        training = tiny_training(
            tmp_path,
            plan=tiny_plan(steps=6, population=40),
            model=Warns(),
            criterion=nn.MSELoss(),
            data=(rows, targets),
            engine=engine,
        )
        assert any("target size" in text for text in shown)
        shown.clear()
        filters = list(warnings.filters)
        training.run(progress=False)
        assert warnings.filters == filters
    assert not shown
