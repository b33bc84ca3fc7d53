"""State that private data would enter, or that no release would change: refused before a charge, and never entered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from problems import RunningMean, linear, tiny_training
from torch import Tensor, nn

from discreet import PrivacyViolation, Training, UnsupportedModel
from discreet.clipping import Findings
from discreet.training import Session


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if trying the model out beforehand had found nothing."""
    monkeypatch.setattr("discreet.training.preflight.model_check.tried", lambda *_: Findings())
    monkeypatch.setattr("discreet.training.preflight.engine_check.check_loss", lambda *_: None)
    monkeypatch.setattr("discreet.training.unit_failures.FailureProbe.repeat", lambda _: None)


class CountsEvaluations(nn.Module):
    """Counts the rows that it is evaluated on."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()
        self.register_buffer("rows", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.rows += len(x)
        return self.head(x)


def test_a_buffer_that_changes_in_evaluation_alone_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrivacyViolation, match="the model changed when it was called, in 'rows'; initialise it"):
        tiny_training(tmp_path, model=CountsEvaluations())


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


def test_no_parameter_takes_its_value_from_private_data(tmp_path: Path, untried: None) -> None:
    model = InitialisedByData()
    training = tiny_training(tmp_path, model=model, engine="reference")
    with training.session() as session:
        for chunk in session_chunks(session, training):
            assert bool((model.scale == 1).all()), chunk


def session_chunks(session: Session, training: Training) -> Iterator[int]:
    """One step, chunk by chunk."""
    with session.step() as step:
        for number, chunk in enumerate(step.chunks):
            step.add(training.criterion, chunk)
            yield number


@pytest.mark.parametrize("persistent", [True, False])
def test_no_buffer_takes_its_value_from_private_data(tmp_path: Path, untried: None, persistent: bool) -> None:
    model = RunningMean(persistent=persistent)
    before = model.mean.clone()
    assert tiny_training(tmp_path, model=model, engine="reference").run().charged_steps == 7
    assert torch.equal(model.mean, before)


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


def test_a_buffer_outside_the_state_dictionary_may_not_change(tmp_path: Path) -> None:
    """By a loop of one's own: what it holds could be of rows, and would move what they release."""
    model = linear()
    model.register_buffer("phases", torch.ones(2), persistent=False)
    training = tiny_training(tmp_path, model=model)
    with training.session() as session:
        with session.step() as step:
            step.add_all(training.criterion)
        model.phases.add_(1)
        with pytest.raises(PrivacyViolation, match="a buffer outside the state dictionary changed"):
            training.result(session)


def test_a_shared_weight_is_private_under_all_its_names(tmp_path: Path) -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), second)
    tiny_training(tmp_path, model=model).run()
