"""A row on which the model or the loss fails at later weights: whether a run ends must not tell of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet.clipping import private_parameters
from discreet.core.errors import InputError
from discreet.data import PrivateData, as_private
from discreet.queries.choices import FULL_SCORE
from discreet.training.control.step_size_search import Candidates, objectives
from discreet.training.private_metrics.unit_values import unit_values


def shares(rows: Tensor) -> Tensor:
    """Targets for one score between 0 and 1."""
    return (rows[:, :1] > rows[:, 1:2]).float()


def finite_at_first() -> nn.Module:
    """Of a row of numbers near the largest, finite; with weights above 1, infinity minus infinity."""
    model = nn.Sequential(nn.Linear(FEATURES, 1, bias=False), nn.Sigmoid())
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.5, -0.5, 0.0, 0.0]]))
    return model


@pytest.mark.parametrize(("engine", "users"), [("bookkeeping", False), ("vmap", True)])
def test_a_row_on_which_the_loss_fails_later_adds_nothing_and_ends_nothing(
    engine: str, users: bool, tmp_path: Path
) -> None:
    """BCELoss raises for NaN, in the first steps after which weights are large."""
    rows = blobs()[0]
    rows[5] = torch.tensor([3e38, 3e38, 0.0, 0.0])
    model = finite_at_first()
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
    changes = {"unit": "user", "rows_per_unit": 2} if users else {}
    training = tiny_training(
        tmp_path,
        plan=tiny_plan(**changes),
        model=model,
        optimizer=optimizer,
        criterion=nn.BCELoss(),
        data=(rows, shares(rows)),
        engine=engine,
        **({"units": [row // 2 for row in range(24)]} if users else {}),
    )
    assert training.run().charged_steps == 7
    with torch.no_grad():
        assert not torch.isfinite(model(rows[5:6])).all()


class Refusing(nn.Module):
    """Raises once its weights are other than they were at first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()
        self.moved = False

    def forward(self, rows: Tensor) -> Tensor:
        if self.moved:
            raise ValueError(f"moved: {len(rows)} rows")
        found: Tensor = self.inner(rows)
        return found


def test_what_fails_on_a_random_row_too_is_an_error_before_the_next_block_is_charged(tmp_path: Path) -> None:
    """And not before, since whether a private row failed as well would tell of that row."""
    model = Refusing()
    training = tiny_training(tmp_path, model=model, engine="bookkeeping")
    with training.session() as session:
        for step_of_block in range(3):
            model.moved = step_of_block > 0
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
        with pytest.raises(ValueError, match="moved: 1 rows"):
            session.ready()
        assert session.ledger.charged_steps(session.run) == 3


def test_a_loss_of_torch_that_fails_on_a_random_row_is_an_error_at_once(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, plan=tiny_plan(batch=24))
    with training.session() as session, pytest.raises(ValueError, match="target size"), session.step() as step:
        step.add(nn.BCELoss(), next(step.chunks))


def test_a_loss_that_was_not_checked_is_refused(tmp_path: Path) -> None:
    """One that remembers rows could move the sum by as many clip norms as there are rows."""

    def other(output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target)

    training = tiny_training(tmp_path, plan=tiny_plan(batch=24))
    with training.session() as session, pytest.raises(InputError, match="another loss"), session.step() as step:
        step.add(other, next(step.chunks))


def test_a_scheduler_that_asks_for_a_loss_is_refused_before_the_run(tmp_path: Path) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(InputError, match="ReduceLROnPlateau"):
        tiny_training(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler)


def test_a_scheduler_that_ends_before_the_plan_is_refused_before_the_run(tmp_path: Path) -> None:
    model, plan = linear(), tiny_plan()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for steps in (plan.steps - 1, plan.steps):
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps)
        given = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        if steps == plan.steps:
            tiny_training(tmp_path / "run", plan=plan, **given).run(progress=False)
            break
        with pytest.raises(InputError, match=f"OneCycleLR has {steps} steps and the plan {plan.steps}"):
            tiny_training(tmp_path / "short", plan=plan, **given)


class Choosy(nn.Module):
    """Refuses large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows.abs().max()) > 100:
            raise ValueError("too large")
        found: Tensor = self.inner(rows)
        return found


def test_in_counts_and_line_searches_it_counts_as_the_worst() -> None:
    rows, targets = blobs(6)
    model, usual = Choosy(), as_private((rows, targets))
    candidates = Candidates(
        model, {name: torch.zeros_like(one) for name, one in private_parameters(model).items()}, [0.0]
    )

    def correct(data: PrivateData, rows: list[int]) -> float:
        return sum(unit_values("accuracy", 1.0, model, nn.CrossEntropyLoss(), data, np.array(rows)))

    count = correct(usual, [0, 1, 3, 4, 5])
    (loss,) = objectives(candidates, nn.CrossEntropyLoss(), as_private((rows[:5], targets[:5])), 50.0, 6)
    rows[5] = 1000.0
    data = as_private((rows, targets))
    assert correct(data, [0, 1, 3, 4]) <= correct(data, [*range(6)]) <= count + 1
    (found,) = objectives(candidates, nn.CrossEntropyLoss(), data, 50.0, 6)
    assert found == loss + FULL_SCORE


def elsewhere(output: Tensor, target: Tensor) -> Tensor:
    """A loss that is on another device for large inputs, as a constant is that somebody made without naming one."""
    found = nn.functional.cross_entropy(output, target)
    return found.to("meta") if float(output.abs().max()) > 100 else found


def test_in_line_searches_the_loss_of_a_row_may_be_on_another_device() -> None:
    rows, targets = blobs(6)
    model = linear()
    candidates = Candidates(
        model, {name: torch.zeros_like(one) for name, one in private_parameters(model).items()}, [0.0]
    )
    (others,) = objectives(candidates, elsewhere, as_private((rows[:5], targets[:5])), 50.0, 6)
    rows[5] = 1e6
    (found,) = objectives(candidates, elsewhere, as_private((rows, targets)), 50.0, 6)
    assert found == others + FULL_SCORE
