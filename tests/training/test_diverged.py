"""A model whose weights become NaN: no step is charged for it any more, and there is no result."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from torch import nn

from discreet import EarlyStopping, InputError, Plan, PublicData, Setup, Training, Tuning
from discreet.methods import Averaging
from discreet.plan import Metric, PartsSearch, Search

ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
KINDS = torch.arange(40) % 2


def training(
    folder: Path, fails_after: int, public: PublicData | None = None, averaging: Averaging | None = None
) -> Training:
    """Thirty steps in blocks of ten, whose learning rate is NaN after some."""
    plan = Plan.poisson(population=40, batch=10, steps=30, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3, block=10)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < fails_after else float("nan"))
    return Training(
        plan,
        model,
        nn.CrossEntropyLoss(),
        optimizer,
        (ROWS, KINDS),
        run=folder,
        scheduler=scheduler,
        public=public,
        averaging=averaging,
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


def test_the_average_that_is_kept_counts_and_not_what_came_after_it(tmp_path: Path) -> None:
    others = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    run = training(tmp_path / "a", 25, PublicData(validation=(others, KINDS[:20].clone())), Averaging())
    trained = run.run(progress=False, evaluate_every=2, early=EarlyStopping(patience=20))
    assert all(bool(torch.isfinite(one).all()) for one in trained.model.parameters())
    with pytest.raises(InputError, match="NaN or infinite"):
        training(tmp_path / "b", 25, averaging=Averaging()).run(progress=False)


def failing(chosen: dict[str, int]) -> Setup:
    """A linear model whose learning rate is NaN from a step on."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: 1.0 if at < chosen["fails"] else float("nan"))
    return Setup(model, nn.CrossEntropyLoss(), optimizer, rates)


def found(folder: Path, settings: list[int]) -> nn.Module:
    """The winner of a search over the step from which on the learning rate is NaN; the score is bought every tenth."""
    metric = Metric(rows="holdout", noise=5.0, every=10)
    facts = {"clip_norm": 1.0, "noise_multiplier": 3.0, "delta": 1e-3, "block": 4}
    one = Plan.poisson(population=40, batch=10, steps=30, holdout=0.2, metrics=[metric], **facts)
    plan = Search.make({"fails": settings}, trials=4, score="holdout_accuracy").over(one)

    winner = Tuning(plan, failing, (ROWS, KINDS), ids=range(40), run=str(folder)).run()
    return winner.model


def test_a_search_prefers_what_did_not_diverge(tmp_path: Path) -> None:
    """Diverged trials end early: their last score is from weights that were finite still, and it must not count. Where
    no other trial was drawn, there is no result."""
    models = []
    for number in range(8):
        with contextlib.suppress(InputError):
            models.append(found(tmp_path / str(number), [12, 99]))
    assert len(models) >= 4
    assert all(bool(torch.isfinite(one).all()) for model in models for one in model.parameters())


def test_a_search_whose_winner_diverged_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="weights of the best trial are NaN or infinite"):
        found(tmp_path / "s", [12, 13])


@pytest.mark.parametrize("settings", [[3, 99, 4], [3, 4, 5]], ids=["one is left", "none is left"])
def test_a_search_over_parts_chooses_among_what_did_not_diverge(tmp_path: Path, settings: list[int]) -> None:
    facts = {"clip_norm": 1.0, "noise_multiplier": 20.0, "delta": 1e-3, "block": 1}
    plan = PartsSearch.make({"fails": settings}).over(Plan.poisson(population=10, batch=5, steps=8, **facts))
    for number in range(4):
        search = Tuning(plan, failing, (ROWS, KINDS), ids=range(40), run=str(tmp_path / str(number)))
        if 99 not in settings:
            with pytest.raises(InputError, match="weights of the best trial are NaN or infinite"):
                search.run()
            break
        winner = search.run()  # the choice costs so little that any of the three could win by its noise
        assert winner.winner == {"fails": 99}


def test_a_frozen_mask_may_hold_infinite_numbers(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 2)
            self.mask = nn.Parameter(torch.tensor([0.0, float("-inf")]), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x) + self.mask.clamp(min=-1.0)

    facts = {"clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
    model, others = Masked(), (ROWS[:20].clone() + 1, KINDS[:20].clone())
    run = Training(
        Plan.poisson(population=40, batch=10, steps=4, **facts),
        model,
        nn.CrossEntropyLoss(),
        torch.optim.SGD(model.head.parameters(), lr=0.1),
        (ROWS, KINDS),
        run=tmp_path / "run",
        public=PublicData(validation=others),
        averaging=Averaging(),
    )
    assert run.run(progress=False, evaluate_every=2, early=EarlyStopping()).evaluations
