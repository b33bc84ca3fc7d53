"""The step: charged before data is read, complete or not released, and the same sum however it is chunked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import Recorded, blobs, linear, tiny_plan, tiny_training
from promises import (
    draws_differ_between_steps,
    draws_do_not_depend_on_the_length,
    empty_batches_release_noise_and_count,
    every_step_is_charged,
    one_step_is_what_the_plan_says,
    releases_are_on_the_grid,
    the_whole_plan_is_charged,
)
from sessions import LOSS, charged, take, weights
from torch import Tensor, nn
from torch.utils.data import Dataset

from discreet import BudgetExhausted, publish
from discreet.clipping import ENGINES
from discreet.core.events import tally
from discreet.ledger import Ledger
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training import step as step_module


def test_a_step_is_charged_before_its_data_is_read(tmp_path: Path) -> None:
    data = Recorded()
    training = tiny_training(tmp_path, data=data, physical_batch=4)
    with training.session() as session:
        seen: list[tuple[int, int]] = []
        data.on_read = lambda _index: seen.append((session.position, charged(training, session.run)))
        while not session.finished:
            take(session)
    assert len(seen) > 20
    assert all(paid >= position > 0 for position, paid in seen)  # the step that reads is counted in the position


def test_a_refused_step_reads_nothing_and_changes_nothing(tmp_path: Path) -> None:
    data = Recorded()
    training = tiny_training(tmp_path, data=data)
    with training.session() as session:
        while not session.finished:
            take(session)
        before = weights(training)
        data.on_read = lambda _index: pytest.fail("a refused step read the data")
        with pytest.raises(BudgetExhausted), session.step():
            pytest.fail("a refused step was entered")
        assert charged(training, session.run) == session.position == 7
    assert torch.equal(weights(training), before)


def test_one_step_is_what_the_plan_says(tmp_path: Path) -> None:
    one_step_is_what_the_plan_says(tmp_path)


def test_every_step_is_charged(tmp_path: Path) -> None:
    every_step_is_charged(tmp_path)


def test_the_whole_plan_is_charged_with_its_last_partial_block(tmp_path: Path) -> None:
    the_whole_plan_is_charged(tmp_path)


def test_empty_batches_release_noise_and_count(tmp_path: Path) -> None:
    empty_batches_release_noise_and_count(tmp_path)


def test_draws_do_not_depend_on_the_length_of_the_data(tmp_path: Path) -> None:
    draws_do_not_depend_on_the_length(tmp_path)


def test_draws_differ_between_steps(tmp_path: Path) -> None:
    draws_differ_between_steps(tmp_path)


def test_gradients_are_cleared_after_the_step(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    with training.session() as session:
        take(session)
    assert all(parameter.grad is None for parameter in training.model.parameters())


def test_an_own_loop_equals_run_bit_for_bit(tmp_path: Path) -> None:
    whole = tiny_training(tmp_path / "a", stream=TestStream(3), physical_batch=5)
    whole.run()
    own = tiny_training(tmp_path / "b", stream=TestStream(3), physical_batch=5)
    with own.session() as session:
        while not session.finished:
            with session.step() as step:
                for inputs, targets in step.chunks:
                    step.add(LOSS, (inputs, targets))
    trained = own.result(session)
    assert torch.equal(weights(whole), weights(own))
    assert trained.charged_steps == 7


@pytest.mark.parametrize("noise", NOISE_SAMPLERS)
def test_with_exact_sums_the_physical_batch_does_not_change_one_bit(tmp_path: Path, noise: str) -> None:
    results = []
    for size in (1, 5, 24):
        training = tiny_training(tmp_path / str(size), physical_batch=size, engine="exact", noise=noise)
        training.run()
        results.append(weights(training))
    assert all(torch.equal(result, results[0]) for result in results)


class Temperature(nn.Module):
    """A parameter without dimensions, beside one without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale, self.none = linear(), nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.zeros(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.head(x)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parameter_without_dimensions_trains(tmp_path: Path, engine: str) -> None:
    training = tiny_training(tmp_path, model=Temperature(), engine=engine, stream=None)
    publish(training.run(), tmp_path / "out")
    assert training.model.scale.shape == ()
    assert float(training.model.scale.detach()) != 1.5


def test_what_reaches_the_optimizer_is_on_the_grid(tmp_path: Path) -> None:
    releases_are_on_the_grid(tmp_path)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap", "reference"])
def test_the_physical_batch_does_not_change_the_result(tmp_path: Path, engine: str) -> None:
    results = []
    for size in (1, 5, 24):
        training = tiny_training(tmp_path / str(size), physical_batch=size, engine=engine)
        training.run()
        results.append(weights(training))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-6, atol=1e-6)


def test_engines_train_the_same_model(tmp_path: Path) -> None:
    results = []
    for engine in ENGINES:
        training = tiny_training(tmp_path / engine, engine=engine)
        training.run()
        results.append(weights(training))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-5, atol=1e-5)


def test_the_divisor_is_the_public_expected_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    divisors: list[float] = []

    def spy(release: object, parameters: object, optimizer: object, divisor: float) -> None:
        divisors.append(divisor)

    monkeypatch.setattr(step_module, "apply", spy)
    training = tiny_training(tmp_path, plan=tiny_plan(population=1000, batch=400), data=blobs(10))
    training.run()
    assert divisors == [400.0] * 7


def test_what_is_spent_is_the_prefix_of_the_plan_after_an_early_stop(tmp_path: Path) -> None:
    plan = tiny_plan(noise_multiplier=[(2.0, 2), (1.0, 5)])
    training = tiny_training(tmp_path, plan=plan)
    with training.session() as session:
        take(session)
        take(session)
        take(session)
        take(session)
    assert not session.finished
    ledger = Ledger(training.folder.ledger)
    assert tally(ledger.spent(session.run)) == tally(plan.first_steps(6))
    ledger.close()
    assert training.result(session).charged_steps == 6


class Pairs(Dataset[tuple[Any, Any]]):
    """Examples as NumPy arrays and plain numbers."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return np.full(4, index / 24, np.float32), index % 3


def test_a_dataset_of_arrays_and_numbers_trains(tmp_path: Path) -> None:
    assert tiny_training(tmp_path, data=Pairs()).run().charged_steps == 7
