"""A start that resumes a run with other settings of its optimizer goes on with those of the checkpoint, and says so."""

from pathlib import Path

import pytest
import torch
from problems import linear, tiny_training
from torch import nn

from discreet.training import Training


def training(folder: Path, model: nn.Module, rate: float, resume: bool, milestone: int | None = None) -> Training:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.8, 0.99))
    scheduler = None if milestone is None else torch.optim.lr_scheduler.MultiStepLR(optimizer, [milestone])
    return tiny_training(folder, model=model, optimizer=optimizer, scheduler=scheduler, resume=resume, stream=None)


def begun(folder: Path, rate: float, milestone: int | None = None) -> None:
    made = training(folder, linear(), rate, False, milestone)
    with made.session() as session:
        for _ in range(2):
            with session.step() as step:
                step.add_all(made.criterion)
            if made.scheduler is not None:
                made.scheduler.step()
        made.save(session)


def test_another_learning_rate_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begun(tmp_path, 0.1)
    again = training(tmp_path, linear(), 0.05, True)
    with again.session():
        assert again.optimizer.param_groups[0]["lr"] == 0.1
    assert caplog.text.count("the run goes on with lr=0.1, as its checkpoint has it, and not with the 0.05") == 1
    assert "betas" not in caplog.text


@pytest.mark.parametrize("milestone", [None, 1])
def test_the_same_settings_are_nothing_to_say(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, milestone: int | None
) -> None:
    """A schedule that has lowered the rate by now is none either."""
    begun(tmp_path, 0.1, milestone)
    with training(tmp_path, linear(), 0.1, True, milestone).session():
        pass
    assert "goes on with" not in caplog.text


@pytest.mark.parametrize("chained", [False, True])
def test_a_momentum_that_the_scheduler_moves_is_no_other_setting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, chained: bool
) -> None:
    def start(resume: bool) -> Training:
        made = linear()
        optimizer = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=10)
        whole = torch.optim.lr_scheduler.ChainedScheduler([scheduler]) if chained else scheduler
        return tiny_training(tmp_path, model=made, optimizer=optimizer, scheduler=whole, resume=resume, stream=None)

    first = start(False)
    with first.session() as session:
        with session.step() as step:
            step.add_all(first.criterion)
        assert first.scheduler is not None
        first.scheduler.step()
        first.save(session)
    with (again := start(True)).session():
        assert again.optimizer.param_groups[0]["momentum"] < 0.95  # where the schedule was, and not where it begins
    assert "goes on with" not in caplog.text
