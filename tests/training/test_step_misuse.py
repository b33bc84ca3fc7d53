"""A step that is not taken as it should be: refused, and nothing is released."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from problems import Recorded, tiny_plan, tiny_training
from sessions import LOSS, charged, released, take, weights
from torch import Tensor

from discreet import InputError, PrivacyViolation
from discreet.training import Batch


def added_twice(step: Batch) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
        step.add(LOSS, chunk)


def an_earlier_chunk_again(step: Batch) -> None:
    first = None
    for chunk in step.chunks:
        first = first or chunk
        step.add(LOSS, first)


def first_skipped(step: Batch) -> None:
    for number, chunk in enumerate(step.chunks):
        if number > 0:
            step.add(LOSS, chunk)


def last_skipped(step: Batch) -> None:
    kept = iter(step.chunks)
    step.add(LOSS, next(kept))


def taken_but_not_added(step: Batch) -> None:
    for _ in step.chunks:
        pass


def never_looked_at(step: Batch) -> None:
    pass


def truncated(step: Batch) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (inputs[1:], targets[1:]))


def grown(step: Batch) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (torch.cat([inputs, inputs]), torch.cat([targets, targets])))


def exchanged(step: Batch) -> None:
    for inputs, targets in step.chunks:
        step.add(LOSS, (torch.zeros_like(inputs), targets))


def iterated_twice(step: Batch) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
    for chunk in step.chunks:
        step.add(LOSS, chunk)


def added_after_the_end(step: Batch) -> None:
    for chunk in step.chunks:
        step.add(LOSS, chunk)
    step.add(LOSS, chunk)


def swallowed(step: Batch) -> None:
    def broken(_output: Tensor, _target: Tensor) -> Tensor:
        raise KeyError("a bug of the user")

    for chunk in step.chunks:
        try:
            step.add(broken, chunk)
        except (KeyError, InputError):
            continue


def changed_in_place(step: Batch) -> None:
    for chunk in step.chunks:
        chunk[0].mul_(100)
        step.add(LOSS, chunk)


def labels_changed_in_place(step: Batch) -> None:
    for chunk in step.chunks:
        chunk[1].zero_()
        step.add(LOSS, chunk)


MISUSE: list[Callable[[Batch], None]] = [
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
    changed_in_place,
    labels_changed_in_place,
]


@pytest.mark.parametrize("misuse", MISUSE, ids=lambda misuse: misuse.__name__)
def test_an_incomplete_or_repeated_batch_is_refused_and_not_released(
    tmp_path: Path, misuse: Callable[[Batch], None]
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
