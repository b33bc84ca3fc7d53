"""A loop of the user's own: what `run` does for them and the loop does itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from problems import linear, tiny_plan, tiny_training

from discreet import Training

STILL = "the scheduler was never stepped in 5 steps"


def scheduled(folder: Path, resume: bool = False) -> Training:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    plan = tiny_plan(steps=5, block=1)
    return tiny_training(folder, model=model, optimizer=optimizer, scheduler=scheduler, plan=plan, resume=resume)


@pytest.mark.parametrize("way", ["never", "in the loop", "by run"])
def test_a_scheduler_that_was_never_stepped_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str) -> None:
    training = scheduled(tmp_path)
    assert training.scheduler is not None
    with caplog.at_level(logging.WARNING, "discreet"):
        if way == "by run":
            training.run(progress=False)
        else:
            with training.session() as session:
                while not session.finished:
                    with session.step() as step:
                        step.add_all(training.criterion)
                    if way == "in the loop":
                        training.scheduler.step()
                training.result(session)
    assert (STILL in caplog.text) is (way == "never")
    assert training.scheduler.get_last_lr() == [0.1 * (1 / 4 if way == "never" else 1)]


def test_a_loop_that_saves_goes_on_with_the_scheduler_where_it_was(tmp_path: Path) -> None:
    first = scheduled(tmp_path)
    assert first.scheduler is not None
    with first.session() as session:
        for _ in range(2):
            with session.step() as step:
                step.add_all(first.criterion)
            first.scheduler.step()
            if session.between_blocks:
                first.save(session)
    again = scheduled(tmp_path, resume=True)
    assert again.scheduler is not None
    with again.session() as session:
        assert session.position == 2
        assert again.scheduler.get_last_lr() == [0.1 * 3 / 4]
