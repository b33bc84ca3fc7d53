"""Runs on a share of the rows: which rows, that the private ones are certified, and that the others have no epsilon."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from discreet.data import Split
from discreet_papers.experiment import read_experiment
from discreet_papers.measure import learning_curve
from discreet_papers.measure.learning_curve import part_of, run
from discreet_papers.measure.runs import data_of, recipe_of
from discreet_papers.measure.store import Measured, Store
from discreet_papers.part import Setting
from discreet_papers.parts.trained.learning_curve import LearningCurvePart

RESULTS = Path(__file__).parents[2] / "recipes" / "results"
RECIPE = {
    "data": "digits",
    "model": {"name": "mlp", "inputs": 64, "outputs": 10, "hidden": [16], "seed": 0},
    "optimizer": {"name": "adam", "lr": 0.01},
    "population": 1437,
    "rate": 0.1,
    "steps": 40,
    "clip_norm": 1.0,
    "schedule": "uniform:initial=1",
    "delta": 1e-4,
    "evaluate_every": 20,
}
CONTENT = {
    "kind": "learning_curve",
    "title": "digits",
    "metric": "accuracy",
    "shares": [0.25, 1],
    "seeds": 2,
    "recipe": RECIPE,
}


def test_a_larger_share_has_the_rows_of_a_smaller_one() -> None:
    rows = torch.arange(100)
    split = Split((rows[:, None].float(), rows), None, ids=np.arange(100), units=np.arange(100) % 7)
    small, large = part_of(split, 0.25, 3), part_of(split, 0.5, 3)
    assert len(small.train[1]) == 25
    assert set(small.train[1].tolist()) < set(large.train[1].tolist())
    assert small.train[1].tolist() != part_of(split, 0.25, 4).train[1].tolist()
    assert small.ids is not None
    assert small.units is not None
    assert small.ids.tolist() == small.train[1].tolist() == small.train[0][:, 0].tolist()
    assert small.units.tolist() == [one % 7 for one in small.ids]
    assert part_of(split, 1, 3).train[1].tolist() == rows.tolist()


def test_private_runs_have_one_epsilon_and_open_runs_none(tmp_path: Path) -> None:
    part = LearningCurvePart.model_validate(CONTENT)
    store, setting = Store(tmp_path, "curve", "full"), Setting(Path())
    for cell in part.cells(None):
        store.add(Measured.now(cell, run(cell, setting), 0.0))
    private = [one for one in store.cells if one.facts["private"]]
    public = [one for one in store.cells if not one.facts["private"]]
    assert len(private) == len(public) == 4
    assert len({one.result["epsilon"] for one in private}) == 1
    for one in public:
        assert set(one.result) == {"rows", "metrics", "stopped", "curve"}
        assert one.result["stopped"] in [[step, pytest.approx(value, abs=1e-5)] for step, value in one.result["curve"]]
        assert one.result["metrics"]["accuracy"] > 0.7  # forty steps of Adam without noise; 0.1 by chance
    assert {one.facts["recipe"]["population"] for one in private} == {359, 1437}
    (table,) = part.tables(store)
    assert [row[1] for row in table.rows] == ["359", "1437"]
    assert table.rows[0][6] == ""
    assert "±" in table.rows[1][6]
    (panel,) = part.panels(store)
    assert [line.label for line in panel.lines] == ["private", "not private"]


def test_an_open_run_is_plain_gradient_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all rows in every batch and SGD, each step is the mean gradient's."""
    recipe = RECIPE | {"rate": 1.0, "steps": 2, "optimizer": {"name": "sgd", "lr": 0.1}}
    part = LearningCurvePart.model_validate(CONTENT | {"shares": [1], "seeds": 1, "recipe": recipe})
    kept: list[nn.Module] = []

    def keep(model: nn.Module, *_: object) -> dict[str, float]:
        kept.append(model)
        return {"accuracy": 0.0}

    monkeypatch.setattr(learning_curve, "evaluate", keep)
    setting = Setting(Path())
    (cell,) = (one for one in part.cells(None) if not one.facts["private"])
    run(cell, setting)
    whole = recipe_of(cell.facts, 0, "test")
    inputs, targets = data_of(whole, setting).train
    model = whole.build_model()
    for _ in range(2):
        gradients = torch.autograd.grad(nn.functional.cross_entropy(model(inputs), targets), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(0.1 * gradient)
    for found, expected in zip(kept[-1].parameters(), model.parameters(), strict=True):
        assert torch.allclose(found, expected, atol=1e-6)


def test_an_open_run_is_stopped_by_rows_that_were_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the step that is best for the held-out tenth, though the test rows say otherwise."""
    sizes = []

    def judge(model: nn.Module, criterion: object, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        sizes.append(len(targets))
        step = sizes.count(len(targets))
        held_out = len(targets) == 143
        return {"accuracy": float(step if held_out else -step)}

    monkeypatch.setattr(learning_curve, "evaluate", judge)
    part = LearningCurvePart.model_validate(CONTENT | {"shares": [1], "seeds": 1})
    (cell,) = (one for one in part.cells(None) if not one.facts["private"])
    found = run(cell, Setting(Path()))
    assert sorted(set(sizes)) == [143, 360]  # a tenth of the training rows; the test rows
    assert found["stopped"] == [40, -2.0]


def test_the_committed_open_runs_have_no_epsilon() -> None:
    cells = Store(RESULTS, "gdp-table-4-causes", "full").cells
    assert all(isinstance(part, LearningCurvePart) for part in read_experiment("gdp-table-4-causes", "full").parts)
    assert {one.facts["private"] for one in cells} == {True, False}
    assert all(("epsilon" in one.result) is one.facts["private"] for one in cells)
    assert len({one.result["epsilon"] for one in cells if one.facts["private"]}) == 1
