"""What a model or a loss warns of is shown before a run, on random rows, and never of private rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import PublicData, Setup, Tuning
from discreet.clipping import ENGINES
from discreet.data import Augmented
from discreet.plan import Search


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


def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every warning that is shown from now on."""
    shown: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append(str(message)))
    return shown


def test_a_transform_is_not_heard_in_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(rows: Tensor) -> Tensor:
        warnings.warn(f"{len(rows)} rows", stacklevel=1)
        return rows + 1

    data = Augmented((torch.randn(40, 3), torch.arange(40) % 2), loud, views=1)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown = heard(monkeypatch)
        training = tiny_training(tmp_path, plan=tiny_plan(steps=4, population=40), model=nn.Linear(3, 2), data=data)
        assert shown
        shown.clear()
        training.run(progress=False)
    assert not shown


def test_a_search_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings of trials would tell how many there were."""
    rows, targets = torch.randn(40, 3), torch.randn(40, 1)
    plan = Search.make({"rate": [0.1, 0.2]}, trials=3, score="validation_loss").over(tiny_plan(steps=4, population=40))

    def build(chosen: dict[str, float]) -> Setup:
        model = Warns()
        return Setup(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=chosen["rate"]))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown = heard(monkeypatch)
        public = PublicData(validation=(torch.randn(20, 3), torch.randn(20, 1)))
        tuning = Tuning(plan, build, (rows, targets), public=public, run=str(tmp_path / "s"))
        assert shown
        shown.clear()
        tuning.run()
    assert not shown
