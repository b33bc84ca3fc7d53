"""The step: charged before data is read, complete or not released, and the same sum however it is chunked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import Recorded, RunningMean, blobs, linear, tiny_plan, tiny_training
from promises import (
    draws_differ_between_steps,
    draws_do_not_depend_on_the_length,
    empty_batches_release_noise_and_count,
    every_step_is_charged,
    one_step_is_what_the_plan_says,
    releases_are_on_the_grid,
    the_whole_plan_is_charged,
)
from torch import Tensor, nn
from torch.utils.data import Dataset

from discreet import BudgetExhausted, InputError, PrivacyViolation, UnsupportedModel, publish
from discreet.clipping import ENGINES, Findings
from discreet.core.events import tally
from discreet.ledger import Ledger
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training import Session, Step, Training
from discreet.training import session as session_module

LOSS = nn.CrossEntropyLoss()


def charged(training: Training, run: str) -> int:
    """What another process sees in the ledger."""
    ledger = Ledger(training.folder.ledger)
    try:
        return ledger.charged_steps(run)
    finally:
        ledger.close()


def released(training: Training, run: str) -> int:
    """How far the ledger says that releases got."""
    ledger = Ledger(training.folder.ledger)
    try:
        return max((entry.position for entry in ledger.entries(run) if entry.kind == "release"), default=0)
    finally:
        ledger.close()


def take(session: Session, before_add: Callable[[tuple[Tensor, Tensor]], None] = lambda _chunk: None) -> None:
    with session.step() as step:
        for chunk in step.chunks:
            before_add(chunk)
            step.add(LOSS, chunk)


def weights(training: Training) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in training.model.parameters()])


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


def added_twice(step: Step) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
        step.add(LOSS, chunk)


def an_earlier_chunk_again(step: Step) -> None:
    first = None
    for chunk in step.chunks:
        first = first or chunk
        step.add(LOSS, first)


def first_skipped(step: Step) -> None:
    for number, chunk in enumerate(step.chunks):
        if number > 0:
            step.add(LOSS, chunk)


def last_skipped(step: Step) -> None:
    kept = iter(step.chunks)
    step.add(LOSS, next(kept))


def taken_but_not_added(step: Step) -> None:
    for _ in step.chunks:
        pass


def never_looked_at(step: Step) -> None:
    pass


def truncated(step: Step) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (inputs[1:], targets[1:]))


def grown(step: Step) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (torch.cat([inputs, inputs]), torch.cat([targets, targets])))


def exchanged(step: Step) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (torch.zeros_like(inputs), targets))


def iterated_twice(step: Step) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
    for chunk in step.chunks:
        step.add(LOSS, chunk)


def added_after_the_end(step: Step) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
    step.add(LOSS, chunk)


def swallowed(step: Step) -> None:
    def broken(_output: Tensor, _target: Tensor) -> Tensor:
        raise KeyError("a bug of the user")

    for chunk in step.chunks:
        try:
            step.add(broken, chunk)
        except KeyError:
            continue


MISUSE: list[Callable[[Step], None]] = [
    added_twice,
    an_earlier_chunk_again,
    first_skipped,
    last_skipped,
    taken_but_not_added,
    never_looked_at,
    truncated,
    grown,
    exchanged,
    iterated_twice,
    added_after_the_end,
    swallowed,
]


@pytest.mark.parametrize("misuse", MISUSE, ids=lambda misuse: misuse.__name__)
def test_an_incomplete_or_repeated_batch_is_refused_and_not_released(
    tmp_path: Path, misuse: Callable[[Step], None]
) -> None:
    plan = tiny_plan(batch=24)  # everyone takes part, so there are four chunks of six
    training = tiny_training(tmp_path, plan=plan, physical_batch=6)
    before = weights(training)
    with training.session() as session:
        with pytest.raises(InputError, match="chunk"), session.step() as step:
            misuse(step)
        assert session.position == 1  # over, without a release; its charge stays
        assert torch.equal(weights(training), before)
        assert charged(training, session.run) == 3
        take(session)  # the next step goes on with the next receipt
        assert session.position == 2
        assert not torch.equal(weights(training), before)


def test_a_step_that_was_closed_takes_no_more(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    with training.session() as session:
        with session.step() as step:
            for chunk in step.chunks:
                step.add(LOSS, chunk)
        with pytest.raises(InputError):
            step.add(LOSS, chunk)


def test_backward_inside_a_step_is_refused(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    before = weights(training)
    with training.session() as session:
        with pytest.raises(PrivacyViolation, match="backward"):
            take(session, before_add=lambda chunk: LOSS(training.model(chunk[0]), chunk[1]).backward())
        assert session.position == 1
    assert torch.equal(weights(training), before)


def test_an_optimizer_step_inside_a_step_is_refused(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)

    def train_on_the_quiet(chunk: tuple[Tensor, Tensor]) -> None:
        LOSS(training.model(chunk[0]), chunk[1]).backward()
        training.optimizer.step()
        training.optimizer.zero_grad()

    with training.session() as session:
        with pytest.raises(PrivacyViolation, match="inside a step"):
            take(session, before_add=train_on_the_quiet)
        assert session.position == 1
        assert released(training, session.run) == 0


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if trying the model out beforehand had found nothing."""
    monkeypatch.setattr("discreet.training.admission.tried", lambda *_: Findings())
    monkeypatch.setattr("discreet.training.rehearsal.refuse_memory", lambda *_: None)


class InitialisedByData(nn.Module):
    """Sets a parameter from the first training input that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale = linear(), nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and bool((self.scale == 1).all()):
            with torch.no_grad():
                self.scale.copy_(x.detach().abs().mean(0))
        return self.head(x * self.scale)


def test_a_parameter_that_takes_its_value_from_private_data_is_caught(tmp_path: Path, untried: None) -> None:
    with pytest.raises(PrivacyViolation, match="inside a step"):
        tiny_training(tmp_path, model=InitialisedByData(), engine="reference").run()


def test_gradients_are_cleared_after_the_step(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    with training.session() as session:
        take(session)
    assert all(parameter.grad is None for parameter in training.model.parameters())


class Broken(RuntimeError):
    pass


def fail(_anything: object) -> None:
    raise Broken


def test_an_exception_inside_a_step_leaves_the_charge(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    before = weights(training)
    with training.session() as session:
        with pytest.raises(Broken):
            take(session, before_add=fail)
        assert session.position == 1
        assert torch.equal(weights(training), before)
        assert charged(training, session.run) == 3
        taken = 0
        while not session.finished:
            take(session)
            taken += 1
        assert taken == 6  # one step early, as it was lost
        assert session.position == 7  # the lost step counts: its charge stays
        assert charged(training, session.run) == 7


def test_an_exception_while_reading_leaves_the_charge(tmp_path: Path) -> None:
    data = Recorded()
    training = tiny_training(tmp_path, data=data)
    with training.session() as session:
        data.on_read = fail
        with pytest.raises(Broken):
            take(session)
        assert charged(training, session.run) == 3


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

    monkeypatch.setattr(session_module, "apply", spy)
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


def test_a_buffer_that_changes_is_caught_at_the_step(tmp_path: Path, untried: None) -> None:
    training = tiny_training(tmp_path, model=RunningMean(), engine="reference")
    with training.session() as session, pytest.raises(PrivacyViolation, match="'mean'"):
        take(session)
    assert session.position == 1


def test_a_buffer_that_changes_is_caught_at_the_end(tmp_path: Path, untried: None) -> None:
    training = tiny_training(tmp_path, model=RunningMean(), engine="reference")
    with pytest.raises(PrivacyViolation, match="'mean'"):
        training.run()


def test_a_buffer_outside_the_state_dictionary_is_caught_too(tmp_path: Path, untried: None) -> None:
    training = tiny_training(tmp_path, model=RunningMean(persistent=False), engine="reference")
    with pytest.raises(PrivacyViolation, match="outside the state dictionary"):
        training.run()


@pytest.mark.parametrize("engine", ["auto", "bookkeeping", "ghost", "vmap", "reference", "exact"])
def test_state_that_would_change_is_refused_before_anything_is_charged(tmp_path: Path, engine: str) -> None:
    for model, name in ((RunningMean(), "buffer 'mean'"), (InitialisedByData(), "parameter 'scale'")):
        with pytest.raises(UnsupportedModel, match=f"{name} changes"):
            tiny_training(tmp_path, model=model, engine=engine)
    assert list(tmp_path.iterdir()) == []


def test_a_buffer_outside_the_state_dictionary_may_stay(tmp_path: Path) -> None:
    model = linear()
    model.register_buffer("phases", torch.ones(2, dtype=torch.complex64), persistent=False)
    tiny_training(tmp_path, model=model).run()


def test_a_shared_weight_is_private_under_all_its_names(tmp_path: Path) -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), second)
    tiny_training(tmp_path, model=model).run()


class Pairs(Dataset[tuple[Any, Any]]):
    """Examples as NumPy arrays and plain numbers."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return np.full(4, index / 24, np.float32), index % 3


def test_a_dataset_of_arrays_and_numbers_trains(tmp_path: Path) -> None:
    assert tiny_training(tmp_path, data=Pairs()).run().charged_steps == 7
