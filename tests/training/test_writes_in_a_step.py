"""What a loop of the user's holds in a step, it may write to: that changes no sum, or is refused."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from problems import blobs, tiny_plan, tiny_training
from sessions import LOSS, released, take, weights
from torch import Tensor

from discreet import Augmented, PrivacyViolation
from discreet.clipping.geometry import Fixed
from discreet.training import Session

Change = Callable[[tuple[Tensor, Tensor]], None]


def after_a_step(change: Change = lambda _chunk: None, **settings: Any) -> Tensor:
    """The weights after a step over everybody in chunks of six, `change` being done to each before it is added."""
    with TemporaryDirectory() as folder:
        training = tiny_training(Path(folder), plan=tiny_plan(batch=24), physical_batch=6, **settings)
        with training.session() as session:
            take(session, before_add=change)
        return weights(training)


@cache
def usual(engine: str) -> Tensor:
    """The same of a loop that changes nothing: the noise is that of the same test stream."""
    return after_a_step(engine=engine)


def through_data(chunk: tuple[Tensor, Tensor]) -> None:
    chunk[0].data.mul_(100)


def through_numpy(chunk: tuple[Tensor, Tensor]) -> None:
    chunk[0].numpy()[:] *= 100
    chunk[1].numpy()[:] = 0


def through_the_storage(chunk: tuple[Tensor, Tensor]) -> None:
    chunk[0].untyped_storage().fill_(66)


def by_other_tensors(chunk: tuple[Tensor, Tensor]) -> None:
    chunk[0].data = 100 * chunk[0]


def in_inference_mode(chunk: tuple[Tensor, Tensor]) -> None:
    with torch.inference_mode():
        chunk[0].data.mul_(100)


UNCOUNTED = [
    (through_data, "bookkeeping"),
    (through_data, "exact"),
    (through_numpy, "exact"),
    (through_the_storage, "exact"),
    (by_other_tensors, "exact"),
    (in_inference_mode, "exact"),
]


@pytest.mark.parametrize(("change", "engine"), UNCOUNTED)
def test_writes_that_torch_does_not_count_change_no_sum(change: Change, engine: str) -> None:
    """One row moved a sum by five clip norms where all rows of its chunk were changed with it."""
    assert torch.equal(after_a_step(change, engine=engine), usual(engine))


class Kept:
    """A transform that keeps what it returned, so that its owner can write to it."""

    def __call__(self, inputs: Tensor) -> Tensor:
        self.last = inputs.clone()
        return self.last


def test_memory_that_a_transform_kept_is_not_what_is_added() -> None:
    transform = Kept()

    def overwrite(_chunk: tuple[Tensor, Tensor]) -> None:
        transform.last.data.mul_(100)

    found = after_a_step(overwrite, data=Augmented(blobs(), transform), engine="exact")
    assert torch.equal(found, usual("exact"))


@pytest.mark.parametrize("card", [False, True])
@pytest.mark.parametrize("engine", ["bookkeeping", "exact"])
def test_weights_that_are_changed_and_put_back_in_a_step_are_refused(
    tmp_path: Path, engine: str, card: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a method does that perturbs weights by a gradient of its own: then rows meet in the weights. On a card that is
    seen when the step ends."""
    monkeypatch.setattr("discreet.training.guard.on_card", lambda _: card)
    training = tiny_training(tmp_path, engine=engine)
    weight = training.model.weight
    kept = weight.detach().clone()

    def perturbed(session: Session) -> None:
        with session.step() as step:
            for chunk in step.chunks:
                weight.data.add_(chunk[0].mean())
                step.add(LOSS, chunk)
                weight.data.copy_(kept)
                added.append(step)

    added: list[object] = []
    with training.session() as session:
        with pytest.raises(PrivacyViolation, match="changed by something that is not a release"):
            perturbed(session)
        assert released(training, session.run) == 0
    assert bool(added) == card


def test_a_card_does_not_forget_what_a_loop_has_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check in the middle of a step is not the one before the release; and the next step is not to blame."""
    monkeypatch.setattr("discreet.training.guard.on_card", lambda _: True)
    training = tiny_training(tmp_path)
    weight = training.model.weight
    kept = weight.detach().clone()

    def perturbed(session: Session, *, ends: bool) -> None:
        with session.step() as step:
            for chunk in step.chunks:
                weight.data.add_(1)
                step.add(LOSS, chunk)
                weight.data.copy_(kept)
            with pytest.raises(PrivacyViolation):
                session.check()
            if ends:
                raise KeyError

    with training.session() as session:
        with pytest.raises(PrivacyViolation, match="changed by something that is not a release"):
            perturbed(session, ends=False)
        with pytest.raises(KeyError):
            perturbed(session, ends=True)
        session.check()
        assert released(training, session.run) == 0
        take(session)
        assert released(training, session.run) == 3  # the position of the last release


def test_what_a_step_shows_of_its_scales_is_a_copy(tmp_path: Path) -> None:
    plan = tiny_plan(batch=24, clip_norm=None, clipping={"kind": "ellipsoid", "norm": 1.0, "scales": "fixed"})
    scales = {"weight": torch.full((3, 4), 2.0), "bias": torch.ones(3)}
    found = []
    for name, factor in (("usual", 1.0), ("changed", 100.0)):
        training = tiny_training(tmp_path / name, plan=plan, geometry=Fixed(scales), physical_batch=6)
        with training.session() as session, session.step() as step:
            for chunk in step.chunks:
                assert step.clip.scales is not None
                step.clip.scales["bias"].mul_(factor)
                step.add(LOSS, chunk)
        found.append(weights(training))
    assert torch.equal(*found)
