"""A model whose weights become NaN: no step is charged for it any more, and there is no result."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from discreet import EarlyStopping, InputError, Plan, PublicData, Training

ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
KINDS = torch.arange(40) % 2


def training(folder: Path, fails_after: int, public: PublicData | None = None) -> Training:
    """Thirty steps in blocks of ten, whose learning rate is NaN after some."""
    plan = Plan.poisson(population=40, batch=10, steps=30, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3, block=10)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < fails_after else float("nan"))
    return Training(
        plan, model, nn.CrossEntropyLoss(), optimizer, (ROWS, KINDS), run=folder, scheduler=scheduler, public=public
    )


def looped(run: Training, scheduler: torch.optim.lr_scheduler.LRScheduler) -> None:
    """A loop that does not ask `ready`."""
    with run.session() as session:
        while not session.finished:
            with session.step() as step:
                step.add_all(run.criterion)
            scheduler.step()


def test_no_further_block_is_charged_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    run = training(tmp_path / "run", 12)
    with pytest.raises(InputError, match=r"NaN or infinite after 20 of 30 charged steps.*lower the learning rate"):
        run.run(progress=False)


def test_a_loop_of_ones_own_is_told_before_the_next_charge(tmp_path: Path) -> None:
    run = training(tmp_path / "run", 5)
    assert run.scheduler is not None
    with pytest.raises(InputError, match="after 10 of 30 charged steps"):
        looped(run, run.scheduler)


def test_the_best_model_of_a_run_that_diverged_is_kept(tmp_path: Path) -> None:
    others = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    run = training(tmp_path / "run", 25, PublicData(validation=(others, KINDS[:20].clone())))
    trained = run.run(progress=False, evaluate_every=2, early=EarlyStopping(patience=20))
    assert all(bool(torch.isfinite(one).all()) for one in trained.model.parameters())


def test_a_run_that_ends_in_infinity_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="after 30 of 30 charged steps"):
        training(tmp_path / "run", 29).run(progress=False)
